"""Processes that execute calls, one per framework."""

from __future__ import annotations

from .request import held_call, request_of
from .worker import Crash, Error, Outcome, Request, Sent, Worker

__all__ = ["Crash", "Error", "Outcome", "Request", "Sent", "Worker", "held_call", "request_of"]
