"""Server side of the Atari environment; needs ale-py."""
