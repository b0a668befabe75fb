"""Server side of the template environment."""
