"""Tests which Kotlin stdlib Maven chooses for a program with the library, and whether the program compiles and runs.

Maven chooses the version with the shortest path of dependencies. Among equally long paths it chooses the first one, not
the newest version.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import central
import jars
from building import ROOT
from installing import output_of
from platforms import this_platform
from projects import KOTLIN_PLUGIN, dependency, ours, pom

JVM, SPRING = (central.properties(ROOT / "packages" / folder / "pom.xml") for folder in ("jvm", "spring"))
OLDEST, NEWEST = JVM["kotlin.oldest"], JVM["kotlin.version"]
#: The Kotlin versions of programs, each with the coroutines of its time.
COROUTINES = {OLDEST: JVM["coroutines.oldest"], "2.0.21": "1.9.0", NEWEST: JVM["coroutines.newest"]}
#: The Kotlin and the coroutines that each Spring Boot manages.
MANAGED = {"boot3": ("1.9.25", "1.8.1"), "boot4": ("2.2.21", "1.10.2")}
#: The stdlib in the library's pom. Maven chooses it if no nearer dependency names another one.
NAMED = NEWEST
CLASS_PATH = "org.apache.maven.plugins:maven-dependency-plugin:3.9.0:build-classpath"
#: Seven programs are compiled before the first test, possibly on a busy machine.
pytestmark = pytest.mark.timeout(1_200)
REFUSED = "was compiled with an incompatible version of Kotlin"

REACTOR = """
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>example</groupId><artifactId>programs</artifactId><version>1</version><packaging>pom</packaging>
  <modules>{}</modules>
</project>
"""
BOOT = """
<dependencyManagement>
  <dependencies>
    {}
  </dependencies>
</dependencyManagement>
"""
#: Kotlin 2.2 and newer keep variables across a suspension with a function that older stdlibs lack.
SUSPENDING = """
suspend fun keeping(wait: suspend () -> Unit): String {
    val kept = StringBuilder("kept")
    wait()
    return kept.toString()
}

enum class Colour { RED, GREEN }
"""
WITH_COROUTINES = """
import io.github.steadlock.Steadlock
import io.github.steadlock.withLock
import kotlin.time.Duration.Companion.seconds
import kotlinx.coroutines.delay
import kotlinx.coroutines.runBlocking

fun main() = Steadlock.connect("memory://").use { client ->
    client.lock("thread").withLock { println(Colour.entries) }
    runBlocking {
        client.withLock("coroutine", wait = 1.seconds, lease = 5.seconds) { println(keeping { delay(1) }) }
    }
}
"""
WITHOUT_COROUTINES = """
import io.github.steadlock.Steadlock
import kotlin.coroutines.Continuation
import kotlin.coroutines.EmptyCoroutineContext
import kotlin.coroutines.resume
import kotlin.coroutines.startCoroutine
import kotlin.coroutines.suspendCoroutine

fun main() = Steadlock.connect("memory://").use { client ->
    client.lock("thread").withLock { println(Colour.entries) }
    suspend { keeping { suspendCoroutine { it.resume(Unit) } } }.startCoroutine(
        Continuation(EmptyCoroutineContext) { println(it.getOrThrow()) },
    )
}
"""
JAVA = """
import io.github.steadlock.Steadlock;

public class Program {
    public static void main(String[] arguments) throws Exception {
        try (var client = Steadlock.connect("memory://")) {
            System.out.println("[RED, GREEN]\\n" + client.lock("thread").withLock(lease -> KEPT));
        }
    }
    KEPT
}
"""
#: A function of coroutines that Kotlin 2.2 has compiled needs the stdlib of Kotlin 2.2.
SUMS = """
    static String kept() throws InterruptedException {
        var sums = FlowKt.runningReduce(FlowKt.flowOf(1, 2), (sum, next, then) -> sum + next);
        var count = BuildersKt.runBlocking(EmptyCoroutineContext.INSTANCE, (scope, then) -> FlowKt.count(sums, then));
        return count.equals(2) ? "kept" : "lost";
    }
"""
IMPORTS = """
import kotlin.coroutines.EmptyCoroutineContext;
import kotlinx.coroutines.BuildersKt;
import kotlinx.coroutines.flow.FlowKt;
"""


class Program(NamedTuple):
    name: str
    #: The version of the Kotlin compiler; empty for Java.
    compiler: str
    dependencies: list[str]
    #: The versions that Maven must choose. Coroutines are empty if the program does not depend on them.
    stdlib: str
    coroutines: str = ""
    managed: str = ""

    @property
    def class_path(self) -> tuple[str, str, str]:
        """Programs with the same class path are compiled and run once."""
        return self.compiler, self.stdlib, "" if self.is_refused else self.coroutines

    @property
    def is_refused(self) -> bool:
        """Whether the compiler refuses the stdlib. A compiler reads classes of the next version, and no newer ones."""
        return bool(self.compiler) and VERSIONS.index(minor(self.stdlib)) > VERSIONS.index(minor(self.compiler)) + 1

    def pom(self, name: str, is_compiled: bool) -> str:
        plugin = KOTLIN_PLUGIN.format(self.compiler) if self.compiler and is_compiled else ""
        return pom("\n".join(self.dependencies), self.managed, plugin, name)

    def source(self) -> tuple[str, str]:
        if self.compiler:
            main = WITH_COROUTINES if self.coroutines else WITHOUT_COROUTINES
            return "src/main/kotlin/Program.kt", main + SUSPENDING
        return "src/main/java/Program.java", (
            IMPORTS + JAVA.replace("-> KEPT", "-> kept()").replace("KEPT", SUMS)
            if self.coroutines
            else JAVA.replace("-> KEPT", '-> "kept"').replace("KEPT", "")
        )


VERSIONS = ["1.8", "1.9", "2.0", "2.1", "2.2", "2.3", "2.4"]


def minor(version: str) -> str:
    return version.rpartition(".")[0]


def kotlin(artifact: str, version: str) -> str:
    return dependency("org.jetbrains.kotlin", artifact, version)


def coroutines(version: str) -> str:
    return dependency("org.jetbrains.kotlinx", "kotlinx-coroutines-core", version)


def boot(version: str) -> str:
    rest = "<type>pom</type><scope>import</scope>"
    return BOOT.format(dependency("org.springframework.boot", "spring-boot-dependencies", version, rest))


def programs() -> Iterator[Program]:
    library = [ours(classifier) for classifier in ("", jars.classifier(this_platform()))]
    for version, number in COROUTINES.items():
        other = coroutines(number)
        stdlib = kotlin("kotlin-stdlib", version)
        yield Program("the stdlib before", version, [stdlib, other, *library], version, number)
        yield Program("the stdlib after", version, [*library, other, stdlib], version, number)
        for name in ("kotlin-stdlib-jdk8", "kotlin-test"):
            # The path from this artifact to the stdlib is as long as the path from the library.
            one = kotlin(name, version)
            yield Program(f"{name} before", version, [one, other, *library], version, number)
            yield Program(f"{name} after", version, [*library, other, one], NAMED, number)
        yield Program("coroutines before", version, [other, *library], NAMED, number)
        yield Program("coroutines after", version, [*library, other], NAMED, number)
        yield Program("nothing else of Kotlin", version, library, NAMED)
    newest = COROUTINES[NEWEST]
    yield Program("nothing of Kotlin", "", library, NAMED)
    yield Program("a library of Kotlin 2.2 before", "", [coroutines(newest), *library], NAMED, newest)
    yield Program("a library of Kotlin 2.2 after", "", [*library, coroutines(newest)], NAMED, newest)
    old = dependency("com.squareup.okhttp3", "okhttp", "4.12.0")
    yield Program("a library of Kotlin 1.8 before", "", [old, *library], NAMED)
    for name, (version, number) in MANAGED.items():
        unversioned = coroutines("").replace("<version></version>", "")
        managed = boot(SPRING[f"{name}.version"])
        yield Program(f"managed by {name}", version, [*library, unversioned], version, number, managed)


PROGRAMS = list(programs())
IDS = [f"{one.compiler or 'Java'}: {one.name}" for one in PROGRAMS]


class Built(NamedTuple):
    """The result of one call of Maven, which resolves all programs and compiles one for each class path."""

    folder: Path
    output: str

    def class_path(self, number: int) -> list[Path]:
        file = self.folder / f"program{number}" / "class-path"
        assert file.exists(), self.output
        return [Path(jar) for jar in file.read_text().split(":")]


@pytest.fixture(scope="module")
def built(local: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("programs")
    for number, program in enumerate(PROGRAMS):
        module = folder / f"program{number}"
        module.mkdir()
        is_compiled = first_like(program) == number
        (module / "pom.xml").write_text(program.pom(module.name, is_compiled))
        if is_compiled:
            name, text = program.source()
            (module / name).parent.mkdir(parents=True)
            (module / name).write_text(text)
    modules = "".join(f"<module>program{number}</module>" for number in range(len(PROGRAMS)))
    (folder / "pom.xml").write_text(REACTOR.format(modules))
    maven = [*jars.MAVEN, f"-Dmaven.repo.local={local}", "-Dmdep.outputFile=class-path", "--fail-at-end"]
    # Maven fails, because some of the programs must be refused.
    command = [*maven, CLASS_PATH, "compile"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return Built(folder, done.stdout + done.stderr)


def first_like(program: Program) -> int:
    return next(number for number, other in enumerate(PROGRAMS) if other.class_path == program.class_path)


@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=IDS)
def test_a_program_gets_a_stdlib_that_runs_it_or_is_refused(
    number: int, built: Built, empty: dict[str, str], tmp_path: Path
) -> None:
    program, path = PROGRAMS[number], built.class_path(number)
    matches = filter(None, (re.fullmatch(r"([a-z0-9-]+?)-([0-9.]+)\.jar", jar.name) for jar in path))
    found = {match[1]: match[2] for match in matches}
    assert found["kotlin-stdlib"] == program.stdlib
    assert found.get("kotlinx-coroutines-core-jvm", "") == program.coroutines
    module = built.folder / f"program{first_like(program)}"
    if program.is_refused:
        failures = built.output.split("Failed to execute goal")
        assert any(f" on project {module.name}:" in one and REFUSED in one for one in failures), built.output
        assert not (module / "target" / "classes" / "ProgramKt.class").exists()
    elif first_like(program) == number:
        classes = os.pathsep.join(map(str, [module / "target" / "classes", *path]))
        command: list[str | Path] = ["java", "-classpath", classes, "ProgramKt" if program.compiler else "Program"]
        assert output_of(command, tmp_path, empty) == "[RED, GREEN]\nkept\n", built.output


def test_the_readme_s_table_has_the_same_versions() -> None:
    rows: dict[str, list[str]] = {}
    for program in PROGRAMS:
        if program.compiler in COROUTINES and not program.managed:
            rows.setdefault(program.name, []).append("refused" if program.is_refused else program.stdlib)
    readme = (jars.PACKAGE / "README.md").read_text()
    table = readme[readme.index("| stdlib of a program with Maven") :].split("\n\n")[0]
    (_, *compilers), _, *rest = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines())
    assert compilers == [f"Kotlin {version}" for version in COROUTINES]
    assert {tuple(cells) for _, *cells in rest} == {tuple(cells) for cells in rows.values()}
