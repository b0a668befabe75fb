"""Server side of the trivial environment."""
