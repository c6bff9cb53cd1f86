"""The demonstration: what it shows is so, what it proves can be disproved, and it leaves nothing behind."""
