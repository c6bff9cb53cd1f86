"""`make pictures`: the pictures of the README and the docs, made from the running program on a board with a story."""
