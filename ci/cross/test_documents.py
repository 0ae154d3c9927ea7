"""What README.md says is run as it stands there. (The rules of SECURITY.md are: core/client/tests/acl.)"""

import re
import subprocess
import sys
from pathlib import Path

from programs import JARS, ROOT, Server, java

README = (ROOT / "README.md").read_text()


def snippets(language: str, server: Server) -> list[str]:
    """The README's blocks of one language, on the test's server."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    assert blocks, f"README.md has no {language}"
    return [block.replace("redis://localhost:6379", server.url) for block in blocks]


def output_of(command: list[str], folder: Path) -> str:
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=60).stdout


def test_the_readme_s_python_runs(server: Server, tmp_path: Path) -> None:
    for snippet in snippets("python", server):
        assert "fencing token 1" in output_of([sys.executable, "-c", snippet], tmp_path)


def test_the_readme_s_javascript_runs(server: Server) -> None:
    for snippet in snippets("js", server):
        command = ["node", "--input-type=module", "--eval", snippet]
        assert "fencing token 1" in output_of(command, ROOT / "examples" / "seckill" / "node")


def test_the_readme_s_java_runs(server: Server, tmp_path: Path) -> None:
    for snippet in snippets("java", server):
        program = (
            "import io.leasehold.*;\n"
            f"class Snippet {{ public static void main(String[] args) throws Exception {{\n{snippet}}} }}\n"
        )
        (tmp_path / "Snippet.java").write_text(program)
        assert "fencing token 1" in output_of([java(), "-cp", f"{JARS}/*", "Snippet.java"], tmp_path)
