"""The wheel, installed as users install it."""
