"""``symgrad serve``: a local page in which expressions are explained as they are typed."""

from __future__ import annotations

import webbrowser

import click

from symgrad.errors import InputError
from symgrad_cli import options
from symgrad_cli.failures import complain, reporting

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="0 picks a free port.")
@click.option("--scripts", is_flag=True, help="Run pasted scripts too: whoever opens the page runs code as you.")
@click.option("--seconds", type=click.FloatRange(min=1), default=30.0, show_default=True, help="Time for a request.")
@click.option(
    "--megabytes", type=click.IntRange(min=256), default=2048, show_default=True, help="Memory for one request."
)
@click.option("--open", "opened", is_flag=True, help="Open the page in the browser.")
@options.traceback_option
@reporting
def serve(
    host: str, port: int, scripts: bool, seconds: float, megabytes: int, opened: bool, traceback: bool
) -> None:  # fmt: skip
    """Serve a local page that explains what you type.

    Only this machine can connect, unless --host allows others. Scripts are run only with --scripts, and then only
    for this machine.
    """
    try:
        import uvicorn

        from symgrad_cli.serving.app import Bounded, application
    except ImportError as error:
        raise InputError(
            "the local server needs packages that a plain installation leaves out",
            found=(f"{error.name} is not installed",), hints=('pip install "symgrad[serve]"',),
        ) from None  # fmt: skip

    if scripts and host not in LOOPBACK:
        raise InputError("--scripts works only with a local address", found=(f"--host {host}",), hints=("no --host",))
    hosts = [*LOOPBACK, "[::1]", *([] if host in LOOPBACK or host in ("0.0.0.0", "::") else [host])]
    app = application(Bounded(seconds, megabytes), scripts, hosts)
    server = uvicorn.Server(uvicorn.Config(app, host=host, port=port, log_level="warning", server_header=False))
    with server.config.bind_socket() as listening:
        listening.listen(128)  # whoever reads the address may ask at once
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listening.getsockname()[1]}/"
        complain(f"symgrad serves at {address} (stop it with Ctrl-C)")
        if opened:
            webbrowser.open(address)
        server.run(sockets=[listening])
