"""Makes Maven projects like those of users: dist/maven is one of their repositories, and the local one has nothing of
ours."""

import os
import textwrap
from collections.abc import Mapping
from pathlib import Path

import jars
from building import DIST
from installing import five_lines, output_of
from version import version

KOTLIN_PLUGIN = """
<plugin>
  <groupId>org.jetbrains.kotlin</groupId>
  <artifactId>kotlin-maven-plugin</artifactId>
  <version>{}</version>
  <executions>
    <execution><id>compile</id><phase>process-sources</phase><goals><goal>compile</goal></goals></execution>
  </executions>
  <configuration>
    <jvmTarget>17</jvmTarget>
    <sourceDirs><sourceDir>src/main/kotlin</sourceDir></sourceDirs>
  </configuration>
</plugin>
"""
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.9.0:copy-dependencies"
POM = """
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>example</groupId>
  <artifactId>{name}</artifactId>
  <version>1</version>
  <properties>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
    <maven.compiler.release>17</maven.compiler.release>
    <maven.compiler.parameters>true</maven.compiler.parameters>
    <kotlin.compiler.daemon>false</kotlin.compiler.daemon>
  </properties>
  <repositories><repository><id>dist</id><url>{url}</url></repository></repositories>
  {managed}
  <dependencies>
    {dependencies}
  </dependencies>
  <build>
    <plugins>
      {plugins}
      <plugin>
        <groupId>org.apache.maven.plugins</groupId>
        <artifactId>maven-compiler-plugin</artifactId>
        <version>3.14.1</version>
      </plugin>
      <plugin>
        <groupId>org.apache.maven.plugins</groupId>
        <artifactId>maven-resources-plugin</artifactId>
        <version>3.3.1</version>
      </plugin>
    </plugins>
  </build>
</project>
"""
#: A program that runs the README's example.
JAVA = """
import io.github.steadlock.Steadlock;

public class Java {{
    public static void main(String[] arguments) {{
{lines}
    }}
}}
"""


def java_source(url: str) -> str:
    return JAVA.format(lines=textwrap.indent(five_lines("java", url), "    "))


def ours(classifier: str) -> str:
    """Returns a dependency on one of the library's jars."""
    chosen = f"<classifier>{classifier}</classifier>" if classifier else ""
    return dependency("io.github.steadlock", "steadlock", version(), chosen)


def dependency(group: str, artifact: str, version: str, rest: str = "") -> str:
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{rest}</dependency>"
    )


def pom(dependencies: str, managed: str = "", plugins: str = "", name: str = "shop") -> str:
    url = (DIST / "maven").as_uri()
    return POM.format(name=name, url=url, dependencies=dependencies, managed=managed, plugins=plugins)


def compile_project(folder: Path, local: Path, files: Mapping[str, str]) -> Path:
    """Compiles a project of these files, and copies all of its dependencies into lib/."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    maven = [*jars.MAVEN, f"-Dmaven.repo.local={local}", f"-DoutputDirectory={folder / 'lib'}"]
    output_of([*maven, "compile", COPY], folder, dict(os.environ))
    return folder


def java(project: Path, *options: str, without: str = "") -> list[str | Path]:
    """Returns the command of a JVM with the class path of a project, without the jars whose names have `without`."""
    libraries = [str(jar) for jar in sorted((project / "lib").iterdir()) if not without or without not in jar.name]
    return ["java", *options, "-classpath", ":".join([str(project / "target" / "classes"), *libraries])]
