"""Runs the programs of README.md and docs/metrics.md unchanged.

core/client/tests/acl tests the rules of SECURITY.md.
"""

import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from programs import JARS, OUTPUT_TIMEOUT, ROOT, Server, java, listening

README = (ROOT / "README.md").read_text()
METRICS = (ROOT / "docs" / "metrics.md").read_text()
NODE = ROOT / "examples" / "seckill" / "node"
WEB = ROOT / "packages" / "web"


def snippets(language: str, server: Server, document: str = README) -> list[str]:
    """Returns a document's blocks of one language, with the URL of the test's server."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", document, re.DOTALL | re.MULTILINE)
    assert blocks, f"there is no {language}"
    return [block.replace("redis://localhost:6379", server.url) for block in blocks]


def output_of(command: list[str], folder: Path, **environment: str) -> str:
    return subprocess.run(
        command, cwd=folder, env=os.environ | environment, check=True, capture_output=True, text=True, timeout=60
    ).stdout


def test_the_readme_s_python_runs(server: Server, tmp_path: Path) -> None:
    for snippet in snippets("python", server):
        assert "fencing token 1" in output_of([sys.executable, "-c", snippet], tmp_path)


def test_the_readme_s_javascript_runs(server: Server, rest: tuple[Server, str]) -> None:
    for snippet in snippets("js", server):
        command = ["node", "--input-type=module", "--eval", snippet]
        folder = WEB if "steadlock-web" in snippet else NODE
        assert "fencing token 1" in output_of(command, folder, UPSTASH_REDIS_REST_URL=rest[1])


def test_the_readme_s_java_runs(server: Server, tmp_path: Path) -> None:
    for snippet in snippets("java", server):
        if "@DistributedLock" in snippet:
            continue  # ReadmeTest of packages/spring runs it, with Spring.
        program = (
            "import io.github.steadlock.*;\n"
            f"class Snippet {{ public static void main(String[] args) throws Exception {{\n{snippet}}} }}\n"
        )
        (tmp_path / "Snippet.java").write_text(program)
        assert "fencing token 1" in output_of([java(), "-cp", f"{JARS}/*", "Snippet.java"], tmp_path)


def page_of(language: str, snippet: str, folder: Path) -> str:
    """Runs a program and returns the page that it serves."""
    in_folder = NODE if language == "js" else folder
    with (
        listening(lambda port: command_of(language, snippet.replace("9464", str(port)), folder), in_folder) as port,
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=OUTPUT_TIMEOUT) as answer,
    ):
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return str(answer.read().decode())


def command_of(language: str, snippet: str, folder: Path) -> list[str]:
    """Returns the command that runs a program. A Java program becomes a file in the folder."""
    if language == "python":
        return [sys.executable, "-c", snippet]
    if language == "js":
        return ["node", "--input-type=module", "--eval", snippet]
    imports = "".join(
        f"import {name};\n"
        for name in (
            "com.sun.net.httpserver.HttpServer",
            "io.github.steadlock.*",
            "java.net.InetSocketAddress",
            "java.nio.charset.StandardCharsets",
        )
    )
    body = f"class Snippet {{ public static void main(String[] args) throws Exception {{\n{snippet}}} }}\n"
    (folder / "Snippet.java").write_text(imports + body)
    return [java(), "-cp", f"{JARS}/*", "Snippet.java"]


@pytest.mark.parametrize("language", ["python", "js", "java"])
def test_the_programs_of_the_page_on_metrics_serve_what_prometheus_reads(
    language: str, server: Server, tmp_path: Path
) -> None:
    for snippet in snippets(language, server, METRICS):
        families = text_string_to_metric_families(page_of(language, snippet, tmp_path))
        samples = {(one.name, one.labels.get("outcome")): one for family in families for one in family.samples}
        granted = samples["steadlock_acquisitions_total", "granted"]
        assert (granted.value, granted.labels["kind"], granted.labels["group"]) == (1, "lock", "stock")
