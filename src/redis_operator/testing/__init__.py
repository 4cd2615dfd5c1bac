"""What tests of controllers need, shipped: a loop in virtual time and a layer of faults."""

from __future__ import annotations
