"""Tests the jars of dist/maven: a Maven project with nothing of ours in its local repository runs the README's
example."""

import os
import subprocess
import textwrap
from pathlib import Path

import pytest

import central
import jars
from building import ROOT
from installing import HERE, best, five_lines, output_of
from platforms import this_platform
from projects import KOTLIN_PLUGIN, compile_project, dependency, java, java_source, ours, pom
from table import ran

#: Milliseconds in a cold JVM until the library is loaded, and until the first lock. A quiet machine needs a tenth.
MOST_FOR_LOAD, MOST_FOR_LOCK = 5_000, 2_000
OWN = jars.classifier(this_platform())
#: The classifiers of our jars on which a program depends, for each choice.
CHOICES = {"two": ("", OWN), "all": ("all",)}
PROPERTIES = central.properties(ROOT / "packages" / "jvm" / "pom.xml")

KOTLIN = """
import io.github.steadlock.Steadlock
import io.github.steadlock.withLock
import kotlinx.coroutines.runBlocking
import kotlin.time.Duration.Companion.seconds

fun main(): Unit = runBlocking {{
{lines}
}}
"""
MEASURED = """
import io.github.steadlock.Steadlock;

public class Measured {
    public static void main(String[] arguments) {
        long start = System.nanoTime();
        Steadlock.connect("memory://").close();
        long loaded = System.nanoTime();
        try (var client = Steadlock.connect(arguments[0])) {
            var lock = client.lock("first");
            lock.lock();
            double took = (System.nanoTime() - loaded) / 1e6;
            lock.unlock();
            System.out.printf("{\\"load\\": %.1f, \\"lock\\": %.1f}%n", (loaded - start) / 1e6, took);
        }
    }
}
"""
IN_MEMORY = """
package shop;

import io.github.steadlock.Steadlock;

public class Main {
    public static void main(String[] arguments) {
        try (var client = Steadlock.connect("memory://")) {
            System.out.println("mine: " + client.lock("first").withLock(lease -> lease.isValid()));
        } catch (UnsatisfiedLinkError error) {
            System.out.println(error.getMessage());
        }
    }
}
"""


@pytest.fixture(scope="module")
def projects(local: Path, url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A compiled program for each choice of dependencies, with all of them in lib/."""
    folder = tmp_path_factory.mktemp("projects")
    return {name: project(folder / name, local, url, classifiers) for name, classifiers in CHOICES.items()}


def project(folder: Path, local: Path, url: str, classifiers: tuple[str, ...]) -> Path:
    kotlin = dependency("org.jetbrains.kotlin", "kotlin-stdlib", PROPERTIES["kotlin.version"])
    coroutines = dependency("org.jetbrains.kotlinx", "kotlinx-coroutines-core", PROPERTIES["coroutines.newest"])
    dependencies = "\n    ".join([*map(ours, classifiers), kotlin, coroutines])
    files = {
        "pom.xml": pom(dependencies, plugins=KOTLIN_PLUGIN.format(PROPERTIES["kotlin.version"])),
        "src/main/java/Java.java": java_source(url),
        "src/main/java/Measured.java": MEASURED,
        "src/main/java/shop/Main.java": IN_MEMORY,
        "src/main/kotlin/Kotlin.kt": KOTLIN.format(lines=textwrap.indent(five_lines("kotlin", url), "    ")),
    }
    return compile_project(folder, local, files)


@pytest.mark.parametrize("choice", CHOICES)
def test_the_readme_s_lines_run(choice: str, projects: dict[str, Path], empty: dict[str, str], tmp_path: Path) -> None:
    assert "fencing token" in output_of([*java(projects[choice]), "Java"], tmp_path, empty)
    assert "fencing token" in output_of([*java(projects[choice]), "KotlinKt"], tmp_path, empty)
    for name in CHOICES[choice]:
        ran(jars.target(f"-{name}.jar" if name else ".jar"), HERE)


@pytest.mark.timing
def test_a_cold_jvm_acquires_its_first_lock_quickly(
    projects: dict[str, Path], url: str, empty: dict[str, str], tmp_path: Path
) -> None:
    took = best([*java(projects["two"]), "Measured", url], tmp_path, empty)
    print(f"JVM: {took}")
    assert took["load"] < MOST_FOR_LOAD
    assert took["lock"] < MOST_FOR_LOCK


def test_on_the_module_path_jna_alone_needs_native_access(
    projects: dict[str, Path], empty: dict[str, str], tmp_path: Path
) -> None:
    found = subprocess.run(ROOT / "packages" / "jvm" / "newer-jdk.sh", capture_output=True, text=True, check=False)
    if found.returncode != 0:
        pytest.skip(found.stderr)
    newer, library, mods = Path(found.stdout.strip()) / "bin", projects["two"] / "lib", tmp_path / "mods"
    module = tmp_path / "module-info.java"
    module.write_text("module shop { requires io.github.steadlock; requires kotlin.stdlib; requires org.slf4j; }\n")
    main = projects["two"] / "src" / "main" / "java" / "shop" / "Main.java"
    output_of([newer / "javac", "-d", mods, "--module-path", library, module, main], tmp_path, empty)
    modules: list[str | Path] = [newer / "java", "--module-path", f"{mods}:{library}"]
    refused = "--illegal-native-access=deny"
    access = [refused, "--enable-native-access=com.sun.jna"]
    assert output_of([*modules, *access, "--module", "shop/shop.Main"], tmp_path, empty) == "mine: true\n"
    output = output_of([*modules, refused, "--module", "shop/shop.Main"], tmp_path, empty)
    assert "lets no native library be loaded" in output
    assert "--enable-native-access=ALL-UNNAMED, or =com.sun.jna" in output


def test_without_the_jar_of_the_platform_the_error_names_it(
    projects: dict[str, Path], empty: dict[str, str], tmp_path: Path
) -> None:
    output = output_of([*java(projects["two"], without=OWN), "shop.Main"], tmp_path, empty)
    assert f"connect: the native library for {this_platform().jna} is not on the class path" in output
    assert f"with the classifier {OWN}, or take the one with the classifier all" in output


@pytest.mark.parametrize("option", ["ro", "noexec"])
def test_where_the_library_cannot_be_unpacked_the_error_names_another_folder(
    option: str, projects: dict[str, Path], empty: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    mount = f'mount -t tmpfs -o {option} tmpfs "$0" && exec "$@"'
    become_root = ["--map-root-user"] if os.geteuid() else []
    inside = ["unshare", *become_root, "--mount", "sh", "-c", mount, str(folder)]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("nothing may be mounted here")
    output = output_of([*inside, *java(projects["two"], f"-Djna.tmpdir={folder}"), "shop.Main"], tmp_path, empty)
    assert "could not be unpacked or loaded" in output
    assert "-Djna.tmpdir=FOLDER" in output
