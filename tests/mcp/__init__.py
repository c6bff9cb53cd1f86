"""The board as language models get it."""
