"""What docs/recipes.md shows is what the scripts are, and what is tested."""

from __future__ import annotations

import ast

import pytest

from tests.integration.trainers.cases import CASES
from tests.integration.trainers.recipes import PAGE, ROOT, Recipe, recipes


RECIPES = [
    pytest.param(recipe, id=f"{name}-{number}")
    for name, each in recipes().items()
    for number, recipe in enumerate(each)
]


@pytest.mark.parametrize("recipe", RECIPES)
def test_one_line_of_the_script_differs(recipe: Recipe) -> None:
    local = recipe.local_form()
    ast.parse(local)
    assert "openenv" in recipe.there or "env_id" in recipe.there
    assert "openenv" not in recipe.here
    assert recipe.here.count("\n") == recipe.there.count("\n") == 1


def test_each_recipe_is_tested() -> None:
    shown = {(name, number) for name, each in recipes().items() for number in range(len(each))}
    assert shown == {(case.trainer, case.recipe) for case in CASES.values()}


def test_each_script_has_a_recipe() -> None:
    scripts = {path.relative_to(ROOT).as_posix() for path in (ROOT / "examples").glob("*ppo.py")}
    assert scripts == {each.script for found in recipes().values() for each in found}
    text = PAGE.read_text(encoding="utf-8")
    assert [script for script in sorted(scripts) if f"| `{script}` |" not in text] == []
