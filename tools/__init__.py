"""What `dev.py` is made of: the standard library alone, because nothing is installed yet."""
