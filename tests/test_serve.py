"""The local server: what it answers, what it refuses, what it survives, and the page in a real browser."""

from __future__ import annotations

import html
import json
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote

import pytest
from click.testing import CliRunner

from symgrad_cli.main import main
from symgrad_cli.serving.app import EXAMPLES
from symgrad_cli.serving.worker import answer
from tests.browser import Opened, browser

ask_worker = answer


@contextmanager
def serving(*options: str) -> Iterator[int]:
    """A server in a process of its own, at a port of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "symgrad_cli", "serve", "--port", "0", *options], stderr=subprocess.PIPE, text=True
    )  # fmt: skip
    try:
        assert process.stderr is not None
        assert select.select([process.stderr], [], [], 60)[0], "the server does not start"
        line = process.stderr.readline()
        yield int(re.search(r":(\d+)/", line)[1])
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stderr is not None:
            process.stderr.close()


def request(port: int, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, str, dict[str, str]]:
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, path, body or None, named)
        found = connection.getresponse()
        return found.status, found.read().decode(), dict(found.getheaders())
    finally:
        connection.close()


def token_of(port: int) -> str:
    page = request(port, "GET", "/")[1]
    return json.loads(html.unescape(re.search(r'data-known="([^"]*)"', page)[1]))["token"]


def post(port: int, path: str, data: object, token: str, **headers: str) -> tuple[int, dict]:
    named = {"Content_Type": "application/json", "X_Symgrad_Token": token, **headers}
    status, text, _ = request(port, "POST", path, json.dumps(data).encode(), **named)
    return status, json.loads(text)


@pytest.fixture(scope="module")
def server() -> Iterator[int]:
    with serving("--seconds", "60") as port:
        yield port


@pytest.mark.one_in(8)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e["title"])
def test_every_example_has_a_page(example: dict[str, str]) -> None:
    found = ask_worker(json.dumps({"kind": "page", **example}))
    assert "error" not in found
    assert found["found"].startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    "job",
    [
        {"kind": "page", "expression": "x*a", "let": "x=@/etc/passwd"},
        {"kind": "page", "expression": "__import__('os').system('true')"},
        {"kind": "page", "expression": "x*a", "shape": "x=100000,100000"},
        {"kind": "page", "expression": "(" * 2000},
        {"kind": "exercise", "expression": "x*a", "line": "open('/etc/passwd')", "wrt": "q"},
    ],
)
def test_what_cannot_be_is_a_message(job: dict[str, str]) -> None:
    found = ask_worker(json.dumps(job))
    assert set(found) == {"error"}
    assert "symgrad bug" not in found["error"]
    assert "root:" not in found["error"]


@pytest.mark.parametrize(
    ("part", "text", "name", "form"),
    [
        ("let", "x=[1,2] a=[3]", "values", "x=[[1,2]]; w=randn(3,2)"),
        ("shape", "x=2,3 a=3,4", "shapes", "x=2,3; w=3,4"),
        ("seed", "[1,2", "seed v", "onehot(0)"),
    ],
)
def test_a_field_is_named_by_what_is_wrong_in_it(part: str, text: str, name: str, form: str) -> None:
    error = ask_worker(json.dumps({"kind": "page", "expression": "x@a", part: text}))["error"]
    assert f"]: {name}: " in error
    assert form in error


def test_scripts_go_only_with_this_machine() -> None:
    found = CliRunner().invoke(main, ["serve", "--scripts", "--host", "0.0.0.0"])
    assert found.exit_code == 2
    assert "--scripts works only with a local address" in found.stderr


@pytest.mark.slow
def test_hostile_requests_are_refused(server: int) -> None:
    token = token_of(server)
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example"):
        assert request(server, "GET", "/", Host=host)[0] == 400
        assert request(server, "GET", "/page?expression=x", Host=host)[0] == 400
    for path in (
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/serve.js/../app.py",
        "/serving/app.py",
        "/static/",
    ):
        status, text, _ = request(server, "GET", path)
        assert status == 404, path
        assert "root:" not in text
    good = {"expression": "x@a", "line": "v @ a.T"}
    assert post(server, "/exercise", good, "")[0] == 403
    assert post(server, "/exercise", good, token[:-1])[0] == 403
    assert post(server, "/exercise", good, token, Content_Type="text/plain")[0] == 415
    assert post(server, "/exercise", {"expression": ["x"]}, token)[0] == 400
    assert post(server, "/exercise", [], token)[0] == 400
    assert post(server, "/exercise", {"expression": "x" * 70_000}, token)[0] == 413
    assert post(server, "/exercise", {"expression": "x" * 5_000}, token)[0] == 413
    assert post(server, "/script", {"source": "print(1)"}, token)[0] == 403  # it was not started for scripts
    assert request(server, "GET", f"/page?expression={'x' * 5000}")[0] == 413
    assert request(server, "DELETE", "/")[0] == 405
    assert request(server, "GET", "/exercise")[0] == 405
    status, text, headers = request(server, "GET", f"/page?expression={quote('<script>alert(1)</script>')}")
    assert status == 200
    assert "<h1" in text
    assert "<script>alert" not in text
    assert "sandbox allow-scripts" in headers["content-security-policy"]
    assert "access-control-allow-origin" not in {name.lower() for name in headers}
    status, found = post(server, "/exercise", good, token)  # after all that it works
    assert (status, found["found"]["kind"]) == (200, "exact")


@pytest.mark.slow
def test_work_is_ended_and_the_next_is_done() -> None:
    slow = quote("; ".join(f"h{n + 1} = logsumexp(h{n}@w, 0) * h{n}" for n in range(60)).replace("h0", "x"))
    with serving("--seconds", "4") as port:
        for _ in range(3):  # the first ones pay for what is loaded
            status, text, _ = request(port, "GET", "/page?expression=x*a")
        begun = time.monotonic()
        status, text, _ = request(port, "GET", f"/page?expression={slow}&shape=x%3D20%2C20")
        assert time.monotonic() - begun < 30
        assert "more than 4 seconds" in text
        deadline = time.monotonic() + 90
        while "x.grad" not in text and time.monotonic() < deadline:
            status, text, _ = request(port, "GET", "/page?expression=x*a")
        assert status == 200
        assert "x.grad" in text


STEP = "import torch\nx = torch.ones(3, requires_grad=True)\n(x * x).sum().backward()\n"
LEFT = "4242.4242"
"""Seconds that no other process sleeps."""
ATTACKS = {
    "goes on for ever": (STEP + "while True: pass", "more than 8 seconds", True),
    "prints for ever": ("while True: print('x' * 10_000)", "(output cut)", False),
    "takes memory": ("found = []\nwhile True: found.append(b'x' * (1 << 26))", "more than 700 megabytes", False),
    "starts sessions": (
        f"import os, time\nfor _ in range(100):\n    if not os.fork():\n        os.setsid(); time.sleep({LEFT})\ntime.sleep({LEFT})",
        "more than 64 processes", False,
    ),
    "leaves something": (
        STEP + f"import subprocess\nfor new in (True, False): subprocess.Popen(['sleep', '{LEFT}'], start_new_session=new)",
        "", True,
    ),
    "reads": ("print(repr(input()))", "EOFError", False),
    "ends its group": ("import os, signal\nos.killpg(0, signal.SIGKILL)", "", False),
}  # fmt: skip


def text_of(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it has just ended
        return ""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells what a script has started")
def test_whatever_a_script_does_it_ends_and_nothing_is_left() -> None:
    """It is told why, and what was told until then is shown; its folder and all that it started are gone."""
    begun = set(Path(tempfile.gettempdir()).glob("symgrad-script-*"))
    jobs = [
        {"kind": "script", "source": source, "seconds": 8 if "8 seconds" in why else 120, "megabytes": 700}
        for source, why, _ in ATTACKS.values()
    ]
    worker = [sys.executable, "-m", "symgrad_cli.serving.worker", "2048"]
    done = subprocess.run(worker, input="\n".join(map(json.dumps, jobs)), stdout=subprocess.PIPE, text=True, check=True)
    answers = map(json.loads, done.stdout.splitlines()[1:])
    for (attack, (_, why, page)), answered in zip(ATTACKS.items(), answers, strict=True):
        assert why in answered["found"]["said"], attack
        assert ("2 * x" in answered["found"]["page"]) is page, attack
    assert set(Path(tempfile.gettempdir()).glob("symgrad-script-*")) <= begun
    assert not [name for name in Path("/proc").glob("[0-9]*/cmdline") if LEFT in text_of(name)]


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
def test_a_script_runs_only_where_the_page_asks() -> None:
    with serving("--scripts", "--seconds", "120") as port:
        token = token_of(port)
        assert post(port, "/script", {"source": STEP}, "guessed")[0] == 403
        assert request(port, "POST", "/script", b"source=x", Content_Type="application/x-www-form-urlencoded")[0] == 403
        status, found = post(port, "/script", {"source": STEP}, token)
        assert status == 200
        assert "2 * x" in request(port, "GET", found["found"]["story"])[1]
        assert request(port, "GET", "/story/guessed")[0] == 404
        with browser() as chromium:
            seen = Opened(chromium.new_context(viewport={"width": 1200, "height": 900}).new_page())
            page = seen.open(f"http://127.0.0.1:{port}/")
            page.locator("#show-script").click()
            page.locator("[name=source]").fill("print('<b>said</b>')\n" + STEP)
            page.locator("#run button").click()
            story = page.frame_locator("#story")
            story.locator(".event").first.wait_for(timeout=90_000)
            assert "2 * x" in story.locator("main").text_content()
            assert "<b>said</b>" in page.locator("#told").text_content()
            page.locator("[name=source]").fill("1/0")
            page.locator("#run button").click()
            page.locator("#told", has_text="ZeroDivisionError").wait_for(timeout=90_000)
            assert seen.violations() == []
            assert seen.complaints == []


def test_a_client_that_hangs_up_leaves_nothing_in_the_log() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "symgrad_cli", "serve", "--port", "0"], stderr=subprocess.PIPE, text=True
    )  # fmt: skip
    assert process.stderr is not None
    try:
        port = int(re.search(r":(\d+)/", process.stderr.readline())[1])
        token = token_of(port)
        with socket.create_connection(("127.0.0.1", port)) as client:
            head = f"POST /exercise HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Symgrad-Token: {token}\r\n"
            client.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 999\r\n\r\n{{".encode())
        assert request(port, "GET", "/")[0] == 200
    finally:
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=20)[1]
    assert rest.strip() in ("", "Aborted!"), rest


def test_what_an_address_asks_for_and_the_page_has_not_is_said(server: int) -> None:
    for name in ("order", "seeds", "entry"):
        text = request(server, "GET", f"/page?expression=x%40a&{name}=2")[1]
        assert f"This page has no field {name}" in text
        assert "expression, let, shape, seed, then, wrt" in text


def test_the_loss_is_a_field() -> None:
    job = {
        "kind": "page",
        "expression": "x@w",
        "then": "F.mse_loss(out, y)",
        "shape": "x=2,3; w=3,2",
        "let": "y=[[1,0],[0,1]]",
    }
    found = ask_worker(json.dumps(job))["found"]
    assert "F.mse_loss(out, y)" in found
    assert "and no loss" in ask_worker(json.dumps({**job, "kind": "exercise"}))["error"]
    assert "mean((out-y)**2)" in ask_worker(json.dumps({**job, "then": "mean((out-y)**2)"}))["found"].replace(" ", "")


ORDINARY = (
    "sum(x**2)", "F.cross_entropy(x, y)", "F.mse_loss(x@w, y)", "x.mean()", "x.max()", "x.norm()", "torch.dot(x, y)",
    "torch.trace(x)", "torch.linalg.inv(x)", "F.conv1d(x, w)", "softmax(x)", "out[i] = sum_j A[i,j]*x[j]", "x.T @ x",
    "tanh(x@w + b)", "logsumexp(x, 0)", "x[1:] - x[:-1]", "einsum('ij,jk->ik', a, b)", "x.std()", "a*x**2 + b*x + c",
    "h = relu(x@w); h.sum()", "cumsum(x, 0)",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
def test_ordinary_expressions_typed_on_the_start_page_are_explained(server: int) -> None:
    """The seed of the example that stands there first is not that of another expression."""
    with browser() as chromium:
        found = Opened(chromium.new_context(viewport={"width": 1200, "height": 900}).new_page())
        page = found.open(f"http://127.0.0.1:{server}/")
        frame = page.frame_locator("#frame")
        frame.locator(".answer").wait_for(timeout=90_000)
        assert page.locator("[name=seed]").input_value() == "[[1,2,3,4],[5,6,7,8]]"
        for text in ORDINARY:
            page.locator("[name=expression]").fill(text)
            assert page.locator("[name=seed]").input_value() == ""
            page.keyboard.press("Tab")  # it is shown at once
            frame.locator("h1, [role=alert]").filter(has_text=re.compile(re.escape(text[-8:]))).first.wait_for(
                timeout=90_000
            )
            assert frame.locator("[role=alert]:visible").count() == 0, (text, frame.locator("main").text_content())
            assert frame.locator(".answer").count() == 1, text
        page.locator("#examples").select_option("10")
        assert page.locator("[name=shape]").input_value() == "x=6; w=3"
        page.locator("[name=expression]").fill("x@a")
        assert page.locator("[name=shape]").input_value() == "x=6"
        page.locator("[name=seed]").fill("[1,2]")  # what somebody typed stays
        page.locator("[name=expression]").fill("x@aa")
        assert page.locator("[name=seed]").input_value() == "[1,2]"
        page.locator("[name=then]").fill("sum(out**2)")
        assert "then=sum" in page.url or page.wait_for_url("**then=sum**", timeout=9_000) is None
        assert found.complaints == []


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
def test_the_page_appears_as_one_types(server: int) -> None:
    with browser() as chromium:
        found = Opened(chromium.new_context(viewport={"width": 1200, "height": 900}).new_page())
        page = found.open(f"http://127.0.0.1:{server}/")
        frame = page.frame_locator("#frame")
        frame.locator(".answer").wait_for(timeout=90_000)
        assert "v @ a.T" in frame.locator(".answer").text_content()
        page.locator("[name=expression]").fill("tanh(x)*y")
        page.locator("[name=seed]").fill("")
        page.locator("[name=let]").fill("x=[0.5,1]; y=[2,3]")
        frame.locator(".answer", has_text="y.grad").wait_for(timeout=90_000)
        assert "expression=tanh" in page.url
        page.locator("[name=let]").fill("")
        for wrong, said in (("tanhh(x)", "tanh"), ("x@a + b@", "expression")):
            page.locator("[name=expression]").fill(wrong)
            frame.locator("main", has_text=said).wait_for(timeout=90_000)
        assert found.complaints == []  # a refusal is an answer, and no error of the page
        page.locator("[name=expression]").fill("tanh(x)*y")
        page.locator("[name=let]").fill("x=[0.5,1]; y=[2,3]")
        frame.locator(".answer", has_text="y.grad").wait_for(timeout=90_000)  # perhaps still the one without values
        page.locator("#link[href*='let=x']").wait_for(state="attached", timeout=90_000)
        link = page.locator("#link").get_attribute("href")
        again = Opened(chromium.new_context().new_page())
        other = again.open(f"http://127.0.0.1:{server}{link}")  # the link holds it all
        assert other.locator("[name=let]").input_value() == "x=[0.5,1]; y=[2,3]"
        other.frame_locator("#frame").locator(".answer", has_text="y.grad").wait_for(timeout=90_000)
        page.locator("#show-exercise").click()
        page.locator("#question", has_text="x.grad = ?").wait_for(timeout=90_000)
        page.locator("[name=line]").fill("v * y * (1 - tanh(x)**2)")
        page.locator("#ask button").first.click()
        page.locator("#verdict", has_text="exact").wait_for(timeout=90_000)
        assert page.locator("#show-script").is_hidden()
        assert found.violations() == []
        page.locator("#show-page").click()
        page.locator("#examples").select_option("6")
        frame.locator("h1", has_text="relu").wait_for(timeout=90_000)
        assert found.complaints == []
        assert all(url.startswith((f"http://127.0.0.1:{server}/", "data:")) for url in found.requests)
