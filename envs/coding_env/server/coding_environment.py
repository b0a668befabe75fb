"""The coding environment itself."""

from __future__ import annotations

from typing import Any, ClassVar

from coding_env.models import (
    MAX_CODE,
    MAX_OUTPUT,
    MAX_RESULT,
    CodeAction,
    CodeObservation,
    CodeState,
    PlainCodeObservation,
)
from coding_env.rubrics import CodeRubric
from coding_env.server.interpreter import Interpreter, Limits, Run
from coding_env.server.judging import Judge
from coding_env.server.options import check_imports, check_limits
from coding_env.server.output import clean
from coding_env.server.sandbox import need_sandbox
from coding_env.server.tasks import EXAMPLES, Task, TaskSet, load_tasks
from openenv_gym.errors import InvalidOptionError, ResetNeededError
from openenv_gym.models import CallToolAction, CallToolObservation
from openenv_gym.rubrics import load_rubric
from openenv_gym.server import MCPEnvironment, check_choice, check_integer, tool


__all__ = ["CodingEnvironment"]

_RUBRICS = {"openenv": "coding_env.rubrics:OpenEnvRubric"}
_MAX_ATTEMPTS = 1000
_LIMITS = Limits()


class CodingEnvironment(MCPEnvironment[CodeAction, CodeObservation, CodeState]):
    """Runs Python that an agent writes.

    Programs run one after the other in an interpreter of their own process, where variables stay
    until `reset`; see `coding_env.server.interpreter` for what separates it from this server. With
    `tasks`, a program is an attempt at a task, and is judged by hidden tests in another
    interpreter (`coding_env.server.judging`).

    Args:
        executor: ``"python"``; or ``"smolagents"``, that library's interpreter of a part of
            Python, in the same kind of process.
        imports: With smolagents: modules that programs may import beside what it allows.
        tasks: None for no tasks; ``"examples"``, the path of a JSONL file, a list of tasks, or a
            `TaskProvider`.
        split: Which of the tasks.
        attempts: Programs that may be handed in for a task.
        wall_s: Seconds that a program may take.
        cpu_s: Seconds of processor time that a process may use in an episode.
        memory_bytes: Address space of a process.
        file_bytes: Size of a file.
        open_files: Descriptors of a process.
        processes: Processes and threads at once.
        rubric: What the reward is: None for `CodeRubric`, ``"openenv"`` for what OpenEnv pays, a
            rubric, or ``"module:attribute"``.
        fields: ``"all"``; or ``"openenv"`` for observations with the three fields that OpenEnv's
            own client knows, and the others in the info.
        allow_unsandboxed: Run programs although nothing contains this server.
        render_mode: ``"ansi"`` to have `render` return the last program and what became of it.

    Raises:
        InvalidOptionError: An option has a value that is not taken.
        IsolationError: Nothing contains this server.
    """

    action_model = CodeAction
    observation_model = CodeObservation
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 4}
    tool_timeout_s = None  # programs have a limit of their own

    def __init__(
        self,
        *,
        executor: str = "python",
        imports: Any = (),
        tasks: Any = None,
        split: str = "train",
        attempts: int = 1,
        wall_s: float = _LIMITS.wall_s,
        cpu_s: int = _LIMITS.cpu_s,
        memory_bytes: int = _LIMITS.memory_bytes,
        file_bytes: int = _LIMITS.file_bytes,
        open_files: int = _LIMITS.open_files,
        processes: int = _LIMITS.processes,
        rubric: Any = None,
        fields: str = "all",
        allow_unsandboxed: bool = False,
        render_mode: str | None = None,
    ) -> None:
        check_choice("allow_unsandboxed", allow_unsandboxed, (False, True))
        need_sandbox(allow_unsandboxed)
        check_choice("render_mode", render_mode, (None, "ansi"))
        check_choice("fields", fields, ("all", "openenv"))
        check_choice("executor", executor, ("python", "smolagents"))
        check_integer("attempts", attempts, 1, _MAX_ATTEMPTS)
        self.render_mode = render_mode
        self._plain = fields == "openenv"
        if self._plain:
            # The type is that of all fields.
            # Of this instance: mypy holds it to the class's own model.
            self.observation_model = PlainCodeObservation  # type: ignore[assignment]
        self._executor = executor
        self._imports = check_imports(imports, executor)
        self._attempts = attempts
        self._limits = check_limits(
            {
                "wall_s": wall_s,
                "cpu_s": cpu_s,
                "memory_bytes": memory_bytes,
                "file_bytes": file_bytes,
                "open_files": open_files,
                "processes": processes,
            }
        )
        self._tasks: TaskSet | None = None if tasks is None else load_tasks(tasks)
        self._split = split
        if self._tasks is not None:
            self._tasks.of(split)
            self.tool(self._submit_solution, name="submit_solution")
        named = _RUBRICS.get(rubric, rubric) if isinstance(rubric, str) else rubric
        self.rubric = load_rubric(named, default=CodeRubric())
        # Started by the first reset: an environment may be made for its schemas alone.
        self._interpreter: Interpreter | None = None
        self._judge = Judge(self._make_interpreter, self._limits.wall_s)
        self._task: Task | None = None
        self._left = 0
        self._best = 0
        self._exit_code = 0
        self._seed = 0
        self._over = False
        self._transcript = ""

    def _make_interpreter(self) -> Interpreter:
        hidden = {str(EXAMPLES.parent)}
        if self._tasks is not None and self._tasks.path is not None:
            hidden.add(self._tasks.path)
        return Interpreter(
            self._limits, executor=self._executor, imports=self._imports, hidden=sorted(hidden)
        )

    # -- episodes ---------------------------------------------------------------------------------

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
        task: int | str | None = None,
    ) -> CodeObservation:
        """Begin an episode with a fresh interpreter.

        Args:
            seed: Seeds the choice of the task, and `random` in the interpreter.
            options: ``task`` is known.
            task: Name or number of the task; by default one is drawn.

        Raises:
            InvalidOptionError: There is no such task, or no such option.
        """
        given = dict(options or {})
        task = given.pop("task", task)
        if given:
            raise InvalidOptionError(
                f"options={sorted(given)!r:.80}: expected 'task' alone.", field="options"
            )
        if task is not None and self._tasks is None:
            raise InvalidOptionError(
                f"task={task!r:.80}: this environment was made without tasks.", field="task"
            )
        self.begin_episode(seed)
        self._seed = int(self.np_random.integers(1 << 31))
        if self._tasks is not None:
            if task is None:
                task = int(self.np_random.integers(len(self._tasks.of(self._split))))
            self._task = self._tasks.find(self._split, task)
        if self._interpreter is None:
            self._interpreter = self._make_interpreter()
        self._interpreter.restart(self._seed)
        self._left, self._best, self._exit_code = self._attempts, 0, 0
        self._over, self._transcript = False, ""
        facts: dict[str, Any] = {}
        info: dict[str, Any] = {}
        if self._task is not None:
            facts = {"prompt": self._task.prompt, "tests_total": len(self._task.tests)}
            info = {"task": self._task.name, "attempts_left": self._left}
            self._transcript = self._task.prompt
        return self._observe(facts, info)

    def act(self, action: CodeAction) -> CodeObservation:
        """Run a program; with a task, it is an attempt at it."""
        self.count_step()
        facts = self._run_code(action.code) if self._task is None else self._attempt(action.code)
        noted = facts.keys() - CodeObservation.model_fields.keys()
        info = {name: facts.pop(name) for name in sorted(noted)}
        return self._observe(facts, info, done=self._over)

    def _run_code(self, code: str) -> dict[str, Any]:
        """Run a program in the interpreter of the episode; return what there is to say."""
        if self._interpreter is None:
            raise ResetNeededError("Cannot run a program before reset.", hint="Call reset() first.")
        if self._over:
            raise ResetNeededError("The episode is over.", hint="Call reset() first.")
        run = self._interpreter.run(code)
        self._exit_code = run.exit_code
        facts = _facts_of(run)
        shown = [f">>> {code}", facts["stdout"], facts["stderr"], facts["result"]]
        self._transcript = "\n".join(filter(None, shown))
        return facts

    def _attempt(self, code: str) -> dict[str, Any]:
        """Run an attempt at the task, and judge it; return what there is to say of it."""
        assert self._task is not None
        facts = self._run_code(code)
        verdict = self._judge.judge(code, self._task, self._seed)
        if verdict.note:
            facts["stderr"] = _noted(facts["stderr"], verdict.note)
            self._transcript += f"\n{verdict.note}"
        before, total = self._best, len(self._task.tests)
        self._best = max(before, verdict.passed)
        self._left -= 1
        self._over = verdict.passed == total or self._left == 0
        return {
            **facts,
            "tests_passed": verdict.passed,
            "tests_total": total,
            "tests_timed_out": verdict.timed_out,
            "tests_unreached": verdict.unreached,
            "best_before": before,
            "attempts_left": self._left,
        }

    def _observe(
        self, facts: dict[str, Any], info: dict[str, Any], *, done: bool = False
    ) -> CodeObservation:
        if not self._plain:
            return CodeObservation(**facts, done=done, metadata=info)
        names = PlainCodeObservation.model_fields.keys() & facts.keys()
        known = {name: facts.pop(name) for name in names}
        found = PlainCodeObservation(**known, done=done, metadata={**facts, **info})
        return found  # type: ignore[return-value]  # of which the options made the model

    # -- tools ------------------------------------------------------------------------------------

    @tool
    def run_python(self, code: str) -> dict[str, Any]:
        """Run Python code; variables of earlier runs are there. It is no attempt at a task.

        Args:
            code: The program.
        """
        facts = self._run_code(_checked(code))
        return facts if self._task is None else {**facts, "attempts_left": self._left}

    def _submit_solution(self, code: str) -> dict[str, Any]:
        """Hand in a program as an attempt at the task; hidden tests judge it.

        Args:
            code: The whole program.
        """
        return self._attempt(_checked(code))

    @tool
    def read_task(self) -> str:
        """Return what is to be done; empty where there is no task."""
        return "" if self._task is None else self._task.prompt

    def judge(self, action: CallToolAction, observation: CallToolObservation) -> None:
        """End the episode where an attempt has ended it."""
        observation.done = self._over

    # -- what there is to know --------------------------------------------------------------------

    @property
    def state(self) -> CodeState:
        """The episode, and what separates programs from this server."""
        return CodeState(
            episode_id=self._episode_id,
            step_count=self._step_count,
            last_exit_code=self._exit_code,
            task=None if self._task is None else self._task.name,
            attempts_left=None if self._task is None else self._left,
            isolation=[] if self._interpreter is None else self._interpreter.isolation,
        )

    def render(self) -> str | None:
        """Return the last program and what became of it, in render mode ``"ansi"``."""
        return self._transcript if self.render_mode == "ansi" else None

    def close(self) -> None:
        """End everything that programs have started."""
        super().close()
        if self._interpreter is not None:
            self._interpreter.close()
            self._interpreter = None
        self._judge.close()

    # -- OpenEnv's task provider ------------------------------------------------------------------

    def list_splits(self) -> list[str]:
        """Return the names of the splits."""
        return self._known_tasks.list_splits()

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """Return the tasks of a split, without their tests."""
        return [task.public() for task in self._known_tasks.of(split)]

    def num_tasks(self, split: str) -> int:
        """Return how many there are."""
        return len(self._known_tasks.of(split))

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """Return one of them."""
        return self.list_tasks(split)[index]

    def get_task_range(
        self, split: str, start: int | None = None, stop: int | None = None
    ) -> list[dict[str, Any]]:
        """Return some of them."""
        return self.list_tasks(split)[start:stop]

    @property
    def _known_tasks(self) -> TaskSet:
        if self._tasks is None:
            raise NotImplementedError("This environment was made without tasks.")
        return self._tasks


def _facts_of(run: Run) -> dict[str, Any]:
    """Return what there is to say of a run: fields of `CodeObservation`, and ``variables_lost``."""
    return {
        "stdout": run.stdout.text,
        "stderr": _noted(run.stderr.text, run.note),
        "exit_code": run.exit_code,
        "result": clean(run.value or "")[:MAX_RESULT],
        "timed_out": run.timed_out,
        "stdout_cut_bytes": run.stdout.cut_bytes,
        "stderr_cut_bytes": run.stderr.cut_bytes,
        "variables_lost": run.lost,
    }


def _noted(stderr: str, note: str) -> str:
    """Append what the environment has to say, for which there is always room."""
    if not note:
        return stderr
    separator = "" if not stderr or stderr.endswith("\n") else "\n"
    return stderr[: MAX_OUTPUT - len(note) - len(separator)] + separator + note


def _checked(code: str) -> str:
    if len(code) > MAX_CODE:
        raise ValueError(f"the program has {len(code)} characters, expected at most {MAX_CODE}")
    return code
