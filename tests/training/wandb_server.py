"""A stand-in for a W&B server on this machine: it takes runs, refuses them, or keeps silent.

As a program it does what a run does with such a server: ``python wandb_server.py URL FOLDER KIND`` starts the
loggers of the run in FOLDER, logs two rows, waits for a line of input, and ends.
"""

from __future__ import annotations

import gzip
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class WandbServer:
    """Answers on ``url`` until :meth:`close`.

    Args:
        status: of every answer; 0 gives none.
    """

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.runs: list[str] = []
        """Ids of the runs that began or went on here."""
        self.rows: list[dict[str, Any]] = []
        """What was logged."""
        self.keys: set[str] = set()
        self._closing = threading.Event()
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                stand_in.keys.add(self.headers.get("authorization") or "")
                if not stand_in.status:
                    stand_in._closing.wait()
                    return
                data = stand_in._answer(self.path, body) if stand_in.status == 200 else None
                text = json.dumps(data).encode()
                self.send_response(stand_in.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_PUT = do_POST

            def log_message(self, *args: Any) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """The server is gone."""
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, path: str, body: bytes) -> Any:
        if not path.endswith(("/graphql", "/file_stream")):  # telemetry and the like
            return {}
        asked = json.loads(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body or "{}")
        if path.endswith("/file_stream"):
            history = asked.get("files", {}).get("wandb-history.jsonl", {})
            self.rows += [json.loads(line) for line in history.get("content", [])]
            return {}
        variables = asked.get("variables", {})
        if asked.get("operationName") == "UpsertBucket":
            self.runs.append(variables["name"])
            owner = {"id": "1", "name": "user"}
            bucket = {
                "id": "1",
                "name": variables["name"],
                "displayName": variables["displayName"],
                "project": {"id": "1", "name": variables["project"], "entity": owner},
                "historyLineCount": len(self.rows),
            }
            return {"data": {"upsertBucket": {"bucket": bucket, "inserted": True}}}
        if asked.get("operationName") == "CreateRunFiles":
            return {"data": {"createRunFiles": {"runID": "1", "uploadHeaders": [], "files": []}}}
        return {"data": {}}


def _run(url: str, folder: Path, kind: str) -> None:
    import os

    from amt.config import WandbConfig
    from amt.training.logger import build_loggers

    os.environ |= {"WANDB_API_KEY": "a" * 40, "WANDB_BASE_URL": url}
    loggers = build_loggers(WandbConfig(), "p", "exp", folder, kind, os.environ)
    print("loggers", *(type(item).__name__ for item in loggers), flush=True)
    first = 10 if kind == "resume" else 0
    for step in (first + 1, first + 2):
        for item in loggers:
            item.log_metrics({"loss": 1.0 / step}, step)
    sys.stdin.readline()  # the server may go now
    for item in loggers:
        item.finalize("success")
    print("ended", time.time(), flush=True)


if __name__ == "__main__":
    _run(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
