"""The environments that this package's image is built and tested for."""

__all__ = ["CLASSICS"]

CLASSICS = (
    "pettingzoo.classic.chess_v6",
    "pettingzoo.classic.connect_four_v3",
    "pettingzoo.classic.go_v5",
    "pettingzoo.classic.leduc_holdem_v4",
    "pettingzoo.classic.rps_v2",
    "pettingzoo.classic.texas_holdem_no_limit_v6",
    "pettingzoo.classic.texas_holdem_v4",
    "pettingzoo.classic.tictactoe_v3",
)
"""Names for ``openenv_gym.pettingzoo.aec_env`` and its like.

``hanabi_v5`` is left out: it needs OpenSpiel, 100 MB, which PettingZoo wants from Python 3.11 on;
where that is installed it is hosted as well."""
