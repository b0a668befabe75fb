"""Server side of PettingZoo's environments."""
