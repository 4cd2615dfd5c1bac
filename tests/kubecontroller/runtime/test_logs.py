from __future__ import annotations

import io
import json
import logging
import pickle

import pytest

from kubecontroller.client.access import Hidden, TokenAuth
from kubecontroller.runtime import logs
from kubecontroller.runtime.logs import Format, bound, fields

log = logging.getLogger("test.logs")


@pytest.fixture
def lines():
    stream = io.StringIO()
    undos = []

    def start(style: Format):
        undos.append(logs.set_up(style=style, stream=stream))
        return lambda: stream.getvalue().splitlines()

    yield start
    for undo in undos:
        undo()


def test_a_json_line_has_time_level_logger_message_and_fields(lines):
    read = lines(Format.JSON)
    log.info("applied", extra=fields(kind="Pod", count=3))
    line = json.loads(read()[0])
    assert line["ts"].endswith("Z")
    assert {k: line[k] for k in ("level", "logger", "msg", "kind", "count")} == {
        "level": "info", "logger": "test.logs", "msg": "applied", "kind": "Pod", "count": 3,
    }  # fmt: skip


def test_a_human_line_ends_with_the_fields(lines):
    read = lines(Format.HUMAN)
    log.warning("tried again", extra=fields(error="no route", count=3))
    assert read()[0].endswith("WARNING tried again error='no route' count=3")


def test_bound_fields_are_on_every_line_inside_and_none_outside(lines):
    read = lines(Format.JSON)
    with bound(reconcileID="r-1"), bound(name="cache"):
        log.info("inside", extra=fields(name="own"))
    log.info("outside")
    inside, outside = map(json.loads, read())
    assert (inside["reconcileID"], inside["name"]) == ("r-1", "own")
    assert "reconcileID" not in outside


@pytest.mark.parametrize("style", list(Format))
def test_a_secret_renders_as_stars_everywhere(lines, style):
    read = lines(style)
    secret = Hidden("hunter2")
    log.info("login", extra=fields(password=secret, nested={"deep": [secret]}))
    log.info("inside", extra=fields(auth=TokenAuth(secret)))
    log.info("as text %s %r", secret, secret)
    log.info(f"formatted {secret} {secret:>10} {secret!r}")  # noqa: G004
    log.error("failed", exc_info=ValueError(f"wrong password {secret}"))
    text = "\n".join(read())
    assert "hunter2" not in text
    assert text.count("***") >= 8


def test_a_secret_is_given_out_only_when_asked_and_never_pickled():
    secret = Hidden("hunter2")
    assert secret.reveal() == "hunter2"
    assert secret == Hidden("hunter2")
    assert secret != "hunter2"
    assert len({secret, Hidden("hunter2")}) == 1
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(secret)


def test_a_field_cannot_take_the_place_of_the_message(lines):
    read = lines(Format.JSON)
    log.info("real", extra=fields(msg="fake", level="fatal"))
    line = json.loads(read()[0])
    assert (line["msg"], line["field_msg"], line["level"]) == ("real", "fake", "info")


@pytest.mark.parametrize("style", list(Format))
def test_a_line_is_written_whatever_is_in_its_fields(lines, style):
    read = lines(style)
    log.info("odd", extra=fields(thing=object(), error=KeyError("x"), big=2**80, odd={1: b"x"}))
    assert len(read()) == 1


def test_an_exception_is_one_json_line(lines):
    read = lines(Format.JSON)
    log.error("failed", exc_info=KeyError("a bug"))
    (line,) = read()
    assert "KeyError: 'a bug'" in json.loads(line)["error"]
