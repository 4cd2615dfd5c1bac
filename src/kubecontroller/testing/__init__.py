"""What tests of controllers need: a loop in virtual time, a small API server, a layer of faults."""

from __future__ import annotations
