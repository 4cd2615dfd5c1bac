"""What CI calls red: each test plays a run of `.ci/run` in a checkout whose `make` is a script.

The script writes the reports that pytest would write. No user is made: the run finds no `useradd`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("bash", "sh", "cat", "rm", "mkdir", "wc", "timeout", "tail", "sed", "git", "id")
MAKE = """#!/bin/bash
# The n-th run of a step does what the file of its name and number says: tests that fail or skip.
step=$*
[ -z "${KUBECONFIG:-}" ] || step="$step-real"
number=$(ls "$PLAY" | grep -c "^ran $step ")
: >"$PLAY/ran $step $number ${E2E_PART%/*}"
[ ! -e "$PLAY/sleep $step" ] || exec sleep 60
said="$PLAY/$step $number"
[ -e "$said" ] || said=/dev/null
words=" $PYTEST_ADDOPTS "
[[ $words == *cache_dir=* ]] || exit 0
cache=${words#*cache_dir=}
cache=${cache%% *}
mkdir -p "$cache/v/cache" "$cache/v/outcome"
if [[ $words == *junitxml=* ]]; then
    report=${words#*junitxml=}
    {
        echo "<testsuite>"
        [ -s "$said" ] || echo "<testcase classname='tests.t' name='other'/>"
        while read -r state name; do
            [ "$state" != broke ] || continue
            echo "<testcase classname='tests.t' name='$name'>"
            [ "$state" != skip ] || echo "<skipped type='pytest.skip'/>"
            [ "$state" != xfail ] || echo "<skipped type='pytest.xfail'/>"
            echo "</testcase>"
        done <"$said"
        echo "</testsuite>"
    } >"${report%% *}"
fi
failed=$(sed -n 's/^fail \\(.*\\)/"tests.t::\\1": true,/p' "$said" | tr -d '\\n')
! grep -q '^broke' "$said"
echo $((1 + $?)) >"$cache/v/outcome/exitstatus"
[ -z "$failed" ] || { echo "{${failed%,}}" >"$cache/v/cache/lastfailed"; exit 1; }
"""


@dataclass
class Checkout:
    folder: Path
    recorded: dict[str, str] = field(default_factory=dict)

    def plays(self, step: str, number: int, *said: str) -> None:
        (self.folder / "play" / f"{step} {number}").write_text("".join(f"{s}\n" for s in said))

    def replaces(self, old: str, new: str) -> None:
        """Change a number of the script."""
        script = self.folder / ".ci/run"
        text = script.read_text()
        assert old in text
        script.write_text(text.replace(old, new))

    def run(self, *, rig: str = "") -> tuple[int, str]:
        for suite in ("test", "test-slow", "contract", "e2e"):
            path = self.folder / ".ci/skips.d" / f"{suite}.txt"
            path.write_text(self.recorded.get(suite, ""))
        environment = {
            "PATH": str(self.folder / "bin"),
            "HOME": str(self.folder),
            "PLAY": str(self.folder / "play"),
            "RIG": rig or str(self.folder / "no-rig"),
        }
        command = [str(self.folder / ".ci/run")]
        done = subprocess.run(
            command,
            env=environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def ran(self) -> list[str]:
        found = (path.name for path in (self.folder / "play").iterdir())
        return sorted(name.removeprefix("ran ") for name in found if name.startswith("ran "))

    def make_rig(self, up: str, build: str = "true") -> str:
        rig = self.folder / "rig"
        rig.mkdir()
        parts = {"setup": "true", "build": build, "up": up, "image": "true", "down": "true"}
        for name, text in parts.items():
            (rig / name).write_text(f"#!/bin/sh\n{text}\n")
            (rig / name).chmod(0o755)
        return str(rig)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    for name in ("bin", "play"):
        (tmp_path / name).mkdir()
    for tool in (*TOOLS, "touch", "dirname", "ls", "grep", "tr", "sleep", "env", "renice"):
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool) or "")
    (tmp_path / "bin/python3").symlink_to(Path(sys.executable).resolve())
    make = tmp_path / "bin/make"
    make.write_text(MAKE)
    make.chmod(0o755)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@y"]
    subprocess.run([*git, "init", "--quiet"], check=True, env=os.environ | {"HOME": str(tmp_path)})
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "x"], check=True)
    return Checkout(tmp_path)


def test_a_run_in_which_all_passes_is_green(checkout: Checkout) -> None:
    code, told = checkout.run()
    assert code == 0, told
    assert "passed on this machine alone" in told
    steps = ["contract", "e2e", "format", "test", "test-slow"]
    assert [name.split(" ")[0] for name in checkout.ran()] == steps


@pytest.mark.parametrize("step", ["test", "test-slow", "contract"])
def test_red_is_red_and_nothing_is_run_again(checkout: Checkout, step: str) -> None:
    checkout.plays(step, 0, "fail one")
    code, told = checkout.run()
    assert code == 1, told
    assert "tests.t::one" in told
    assert [name for name in checkout.ran() if name.split(" ")[0] == step] == [f"{step} 0 "]
    assert not any(name.startswith("e2e") for name in checkout.ran())


def test_two_end_to_end_tests_may_be_run_once_more_and_their_names_come_last(
    checkout: Checkout,
) -> None:
    checkout.plays("e2e", 0, "fail one", "fail two", "pass three")
    checkout.plays("e2e", 1, "pass one", "pass two")
    code, told = checkout.run()
    assert code == 0, told
    assert told.splitlines()[-2:] == ["tests.t::one", "tests.t::two"]
    assert [name for name in checkout.ran() if name.startswith("e2e")] == ["e2e 0 0", "e2e 1 "]


@pytest.mark.parametrize("second", [("skip one",), ("pass two",), ()])
def test_one_that_is_not_seen_to_pass_in_the_second_run_is_red(
    checkout: Checkout, second: tuple[str, ...]
) -> None:
    checkout.plays("e2e", 0, "fail one", "fail two")
    checkout.plays("e2e", 1, *second)
    code, told = checkout.run()
    assert code == 1, told
    assert "not all that failed passed when run once more" in told


def test_after_a_run_that_was_broken_off_its_failures_alone_are_not_enough(
    checkout: Checkout,
) -> None:
    checkout.plays("e2e", 0, "fail one", "broke off")
    code, told = checkout.run()
    assert code == 1, told
    assert "e2e: ended before all tests had run" in told


def test_a_run_without_any_test_is_red(checkout: Checkout) -> None:
    checkout.plays("contract", 0, "broke off")
    code, told = checkout.run()
    assert code == 1, told
    assert "the report has no test" in told


def test_a_real_cluster_that_names_no_kubeconfig_is_red(checkout: Checkout) -> None:
    code, told = checkout.run(rig=checkout.make_rig("echo it is up"))
    assert code == 1, told
    assert "did not say where its kubeconfig is" in told


def test_a_third_one_is_red(checkout: Checkout) -> None:
    checkout.plays("e2e", 0, "fail one", "fail two", "fail three")
    code, told = checkout.run()
    assert code == 1, told
    assert not any(name.startswith("e2e 1") for name in checkout.ran())


def test_two_in_one_run_are_two_in_all_its_steps(checkout: Checkout) -> None:
    checkout.plays("e2e", 0, "fail one", "fail two")
    checkout.plays("e2e", 1, "pass one", "pass two")
    checkout.plays("e2e-real", 0, "fail three")
    rig = checkout.make_rig("echo export KUBECONFIG=/dev/null")
    code, told = checkout.run(rig=rig)
    assert code == 1, told
    assert told.splitlines()[-1] == "tests.t::three"


def test_one_that_fails_twice_is_red(checkout: Checkout) -> None:
    checkout.plays("e2e", 0, "fail one")
    checkout.plays("e2e", 1, "fail one")
    assert checkout.run()[0] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recorded", "said", "tells"),
    [
        ("", "skip one", "skipped, and not recorded in test.txt: tests.t::one"),
        ("tests.t::one\n", "pass one", "recorded in test.txt, and not skipped: tests.t::one"),
        ("tests.t::one\n", "pass two", "recorded in test.txt, and there is none: tests.t::one"),
        ("if real: tests.t::one\n", "skip one", "skipped, and not recorded"),
        ("if not real: tests.t::one\n", "pass one", "and not skipped"),
        ("tests.t::o*\n", "pass one", "recorded in test.txt, and not skipped: tests.t::one"),
        ("tests.t::o*\n", "pass two", "recorded in test.txt, and there is none: tests.t::o*"),
        ("", "xfail one", "skipped, and not recorded in test.txt: tests.t::one"),
    ],
)
def test_tests_that_are_skipped_otherwise_than_recorded_are_red(
    checkout: Checkout, recorded: str, said: str, tells: str
) -> None:
    checkout.recorded["test"] = recorded
    checkout.plays("test", 0, said)
    code, told = checkout.run()
    assert code == 1, told
    assert tells in told


@pytest.mark.parametrize(
    "recorded", ["tests.t::one\n", "if not real: tests.t::one\n", "tests.t::*\n"]
)
def test_tests_that_are_skipped_as_recorded_are_green(checkout: Checkout, recorded: str) -> None:
    checkout.recorded["test"] = recorded
    checkout.plays("test", 0, "skip one", "skip two[redis-7.0]")  # an engine of this machine
    code, told = checkout.run()
    assert code == 0, told


def test_a_real_cluster_that_is_there_and_does_not_start_is_red(checkout: Checkout) -> None:
    code, told = checkout.run(rig=checkout.make_rig("echo no room; exit 1"))
    assert code == 1, told
    assert "the real cluster did not start" in told
    assert "no room" in told


def test_a_real_cluster_gets_the_contract_suite_and_a_part_of_the_rest(
    checkout: Checkout,
) -> None:
    checkout.recorded["e2e"] = "if real: tests.t::one\nif real: tests.t::of-another-part\n"
    checkout.plays("e2e", 0, "pass one", "pass of-another-part")
    checkout.plays("e2e-real", 0, "skip one")
    checkout.recorded["contract"] = "if not real: tests.t::of this machine\n"
    checkout.plays("contract", 0, "skip of this machine")
    code, told = checkout.run(rig=checkout.make_rig("echo export KUBECONFIG=/dev/null"))
    assert code == 0, told
    assert "contract-real 0 " in checkout.ran()
    assert {"e2e-real 0 0", "e2e-real 0 1"} & {*checkout.ran()}
    assert "there is none" not in told  # what this machine alone has is not missed there


def test_a_contract_that_does_not_hold_on_a_real_cluster_is_red(checkout: Checkout) -> None:
    checkout.plays("contract-real", 0, "fail one")
    code, told = checkout.run(rig=checkout.make_rig("echo export KUBECONFIG=/dev/null"))
    assert code == 1, told
    assert "failed: contract-real" in told
    assert not any(name.startswith("e2e") for name in checkout.ran())


def test_a_real_cluster_that_is_built_beside_the_tests_is_used_once_it_is_built(
    checkout: Checkout,
) -> None:
    checkout.replaces("build_at_once_seconds=20", "build_at_once_seconds=1")
    # It is built when the contract suite of this machine has run.
    ran = '"$PLAY/ran contract 0 "'
    rig = checkout.make_rig(
        "echo export KUBECONFIG=/dev/null", build=f"until [ -e {ran} ]; do sleep 0.1; done"
    )
    code, told = checkout.run(rig=rig)
    assert code == 0, told
    assert "its contract suite is left to a run that finds it built" in told
    assert {"e2e-real 0 0", "e2e-real 0 1"} & {*checkout.ran()}
    assert "contract-real 0 " not in checkout.ran()


def test_a_real_cluster_that_cannot_be_built_is_red(checkout: Checkout) -> None:
    rig = checkout.make_rig("exit 1", build="echo no compiler; exit 1")
    code, told = checkout.run(rig=rig)
    assert code == 1, told
    assert "failed: the real cluster was not built" in told
    assert "no compiler" in told


def test_a_real_cluster_whose_build_takes_too_long_costs_nothing_else_its_time(
    checkout: Checkout,
) -> None:
    checkout.replaces("build_at_once_seconds=20", "build_at_once_seconds=1")
    checkout.replaces("e2e_here_seconds=1800", "e2e_here_seconds=2520")
    ended = checkout.folder / "ended"
    rig = checkout.make_rig(
        "exit 1", build=f"trap 'touch {ended}; exit' TERM\nsleep 60 & wait\ntouch never"
    )
    code, told = checkout.run(rig=rig)
    assert code == 0, told
    assert "the real cluster is not built yet" in told
    assert "passed on this machine alone" in told
    assert any(name.startswith("e2e 0 ") for name in checkout.ran())
    end = time.monotonic() + 30  # it was told to end, and does so by itself
    while not ended.exists():
        assert time.monotonic() < end, told
        time.sleep(0.05)


def test_where_time_is_short_a_part_of_the_end_to_end_tests_is_run_and_told(
    checkout: Checkout,
) -> None:
    checkout.replaces("limit_seconds=2640", "limit_seconds=1120")
    code, told = checkout.run()
    assert code == 0, told
    assert "not all end-to-end tests fit into the time that is left: part" in told
    assert {"e2e 0 0", "e2e 0 1"} & {*checkout.ran()}


def test_what_cannot_be_compared_is_red(checkout: Checkout) -> None:
    python = checkout.folder / "bin/python3"
    python.unlink()
    python.symlink_to("/bin/false")
    code, told = checkout.run()
    assert code == 1, told
    assert "could not be compared" in told


def test_a_step_that_takes_longer_than_it_may_is_red(checkout: Checkout) -> None:
    checkout.replaces("1200 make test", "1 make test")
    (checkout.folder / "play/sleep test").touch()
    code, told = checkout.run()
    assert code == 1, told
    assert "test: took longer than it may" in told
