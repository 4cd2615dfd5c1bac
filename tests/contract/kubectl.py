"""Running kubectl as people do, and its words made comparable between two servers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from contract.golden import matches

__all__ = ["Kubectl", "found"]

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
LONG_TIME = re.compile(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}")
IDENTITY = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
VERSION = re.compile(r'((resourceVersion|Resource Version)\\?["\']?: *\\?["\']?)\d+')
CREATED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4} UTC")
AGE = re.compile(r"(?<![\w.-])(\d+[smhd]){1,2}(?![\w-])|<unknown>(?=\s|$)")
ADDRESS = re.compile(r"(?<![\d.])\d{1,3}(\.\d{1,3}){3}(?![\d.])")
TOKEN = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]+")
# What was made of a patch is shown as Go prints it; here only what is wrong with it is said.
PATCH = re.compile(r"(?m)(is invalid: patch: Invalid value:).*?( strict decoding error: .*)?$")
DIFF = re.compile(r"^(diff|---|\+\+\+) .*$", re.MULTILINE)
COLUMNS = re.compile(r"(?<=\S) {2,}(?=\S)")
LOG = re.compile(r"[EWI]\d{4} \d\d:\d\d:\d\d\.")
MINOR = re.compile(r"v(1\.\d+)\.")


@cache
def found() -> dict[str, str]:
    """The kubectls of this machine by minor version: the environment's own, and that on PATH."""
    places = [Path(sys.executable).parent / "kubectl", shutil.which("kubectl")]
    tools: dict[str, str] = {}
    for place in places:
        if place and Path(place).exists():
            command = [str(place), "version", "--client", "--output=json"]
            answer = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
            minor = MINOR.match(answer["clientVersion"]["gitVersion"])
            assert minor, answer
            tools.setdefault(minor[1], str(place))
    return tools


@dataclass
class Kubectl:
    """One kubectl on one server in one namespace; keeps a transcript of what was said."""

    program: str
    version: str
    kubeconfig: str
    namespace: str
    home: Path
    transcript: list[str] = field(default_factory=list)
    words: dict[str, str] = field(default_factory=dict)

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "KUBECACHEDIR": str(self.home / self.version),
            "KUBECONFIG": self.kubeconfig,
            "TZ": "UTC",
            **(more or {}),
        }

    def run(
        self,
        line: str,
        *,
        given: str | None = None,
        words: tuple[str, ...] = (),
        env: Mapping[str, str] | None = None,
    ) -> str:
        """Run a command line (and further whole words), and write down what it said."""
        command = [self.program, "--namespace", self.namespace, *line.split(), *words]
        done = subprocess.run(
            command,
            input=given,
            text=True,
            capture_output=True,
            env=self.environment(env),
            timeout=60,
            check=False,
        )
        # Lines of kubectl's own log depend on when a watch was cut off, not on the server.
        errors = [each for each in done.stderr.splitlines() if not LOG.match(each)]
        said = done.stdout + "".join(f"! {each}\n" for each in errors)
        end = f"(exit {done.returncode})\n" if done.returncode else ""
        asked = " ".join([line, *words])
        self.transcript.append(self.plain(f"$ kubectl {asked}\n{said}{end}"))
        return done.stdout

    def quiet(self, line: str, given: str | None = None) -> str:
        """Run what only prepares: it must work and is not written down."""
        before = len(self.transcript)
        answer = self.run(line, given=given)
        said = self.transcript[before:]
        del self.transcript[before:]
        assert "(exit" not in said[0], said[0]
        return answer

    def plain(self, text: str) -> str:
        """Times, identities, addresses and column widths made the same for everybody."""
        text = text.replace(self.namespace, "contract-nnnnnnnn")
        for word, value in self.words.items():
            text = text.replace(value, word)
        for pattern, word in (
            (TIME, "<time>"),
            (LONG_TIME, "<time>"),
            (CREATED, "<time>"),
            (IDENTITY, "<uid>"),
            (TOKEN, "<token>"),
            (AGE, "<age>"),
            (ADDRESS, "<address>"),
        ):
            text = pattern.sub(word, text)
        text = VERSION.sub(r"\1<version>", text)
        text = PATCH.sub(r"\1\2", text)
        text = DIFF.sub(r"\1 <file>", text)
        lines = text.split("\n")
        return "\n".join(COLUMNS.sub("  ", line).rstrip() for line in lines)

    def compare(self, case: str) -> None:
        """The whole transcript must be what it was on a real server."""
        matches(f"kubectl-{self.version}", case, "\n".join(self.transcript))
