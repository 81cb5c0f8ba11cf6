"""Two models on this machine for the example: a student who answers, a grader who judges.

They speak the OpenAI API, but only know questions.jsonl. Replace them with real models.
"""

import json
import re
import sys
import time
import zlib
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PORT = 8642
ROWS = Path(__file__).with_name("questions.jsonl").read_text("utf-8").splitlines()
ANSWERS = {row["question"]: row["answer"] for row in map(json.loads, ROWS)}


def student(prompt: str) -> str:
    """Answer the question in the prompt: mostly right, and polite if the prompt says so."""
    question = next((known for known in ANSWERS if known in prompt), "")
    number = zlib.crc32(question.encode())
    answer = "I do not know" if number % 6 == 0 else ANSWERS.get(question, "I do not know")
    if "polite" in prompt or number % 3:
        return f"I believe the answer is: {answer}."
    return f"{answer}. Everybody knows that, why do you ask?"


def grader(prompt: str, labels: list[str]) -> dict[str, str]:
    """Judge the data in the prompt: a reason, and the first or the last label."""
    *others, answer = re.findall(r"<data-\w+>(.*?)</data-\w+>", prompt, re.DOTALL)
    if "correct" in labels:  # the question and its reference come before the answer
        is_good, why = others[-1].lower() in answer.lower(), f"The reference is {others[-1]}."
    else:
        is_good, why = "why do you ask" not in answer, "It scolds whoever asks."
    return {"reason": "As it should be." if is_good else why, "label": labels[0 if is_good else -1]}


class ModelHandler(BaseHTTPRequestHandler):
    """The part of the OpenAI API that the example needs."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Reply to a chat completion."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(0.2)  # a model takes time
        prompt = request["messages"][-1]["content"]
        if request["model"] == "grader":
            schema = request["response_format"]["json_schema"]["schema"]
            text = json.dumps(grader(prompt, schema["properties"]["label"]["enum"]))
        else:
            text = student(prompt)
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(text) // 4}
        body = json.dumps({"model": request["model"], "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


if __name__ == "__main__":
    try:
        server = ThreadingHTTPServer(("127.0.0.1", PORT), ModelHandler)
    except OSError as error:
        sys.exit(f"port {PORT}: {error.strerror}; choose another, here and in eval.yml")
    print(f"student and grader are at http://127.0.0.1:{PORT}/v1", flush=True)
    with suppress(KeyboardInterrupt):
        server.serve_forever()
