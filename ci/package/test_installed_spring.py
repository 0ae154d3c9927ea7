"""Tests the starters of dist/maven: a Maven project whose local repository has nothing of ours runs the examples of the
READMEs."""

import re
from pathlib import Path

import pytest

import central
import jars
import starters
from installing import HERE, README, blocks, failed, output_of
from platforms import this_platform
from projects import compile_project, java, pom
from table import ran

PACKAGE = "com.example.shop"
MAIN = f"{PACKAGE}.ShopApplication"
OWN = jars.classifier(this_platform())
PROPERTIES = central.properties(starters.PACKAGE / "pom.xml")
#: The starter for each version of Spring Boot.
STARTERS = {PROPERTIES[f"{boot}.version"]: f"steadlock-spring-{boot}-starter" for boot in ("boot3", "boot4")}

#: The bill of materials by which nearly all programs choose the versions of Spring.
BOM = """
<dependencyManagement>
  <dependencies>
    <dependency>
      <groupId>org.springframework.boot</groupId>
      <artifactId>spring-boot-dependencies</artifactId>
      <version>{boot}</version>
      <type>pom</type>
      <scope>import</scope>
    </dependency>
  </dependencies>
</dependencyManagement>
"""

#: A class around the example of the project's README.
SHOP = """
package com.example.shop;

import io.github.steadlock.spring.CurrentLease;
import io.github.steadlock.spring.DistributedLock;
import org.springframework.stereotype.Service;

@Service
public class Shop {{
{lines}
}}
"""
CALLS = """
package com.example.shop;

import org.springframework.boot.CommandLineRunner;
import org.springframework.stereotype.Component;

@Component
class Calls implements CommandLineRunner {
    private final Vouchers vouchers;
    private final Shop shop;

    Calls(Vouchers vouchers, Shop shop) {
        this.vouchers = vouchers;
        this.shop = shop;
    }

    @Override
    public void run(String... arguments) {
        System.out.println("vouchers: " + vouchers.buy(7));
        System.out.println("shop: " + shop.buy(7));
    }
}
"""


@pytest.fixture(scope="module", params=STARTERS)
def boot(request: pytest.FixtureRequest) -> str:
    """A version of Spring Boot."""
    return str(request.param)


@pytest.fixture(scope="module", params=["by Boot's bill of materials", "by the starter alone"])
def project(
    request: pytest.FixtureRequest, boot: str, local: Path, url: str, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A compiled program with all dependencies in lib/. The parameter says what chooses its versions of Spring."""
    managed = BOM.format(boot=boot) if "Boot's" in request.param else ""
    spring = starters.PACKAGE / "README.md"
    (dependencies,) = blocks(spring, "xml", url)
    chosen = re.sub(r"steadlock-spring-boot\d-starter", STARTERS[boot], dependencies).replace("linux-x86_64", OWN)
    application, vouchers = (block for block in blocks(spring, "java", url) if block.startswith("package"))
    (shop,) = (block for block in blocks(README, "java", url) if block.startswith("@DistributedLock"))
    sources = f"src/main/java/{PACKAGE.replace('.', '/')}"
    files = {
        "pom.xml": pom(chosen, managed),
        "src/main/resources/application.properties": blocks(spring, "properties", url)[0],
        f"{sources}/ShopApplication.java": application,
        f"{sources}/Vouchers.java": vouchers,
        f"{sources}/Shop.java": SHOP.format(lines=shop),
        f"{sources}/Calls.java": CALLS,
    }
    return compile_project(tmp_path_factory.mktemp("spring"), local, files)


def test_the_readmes_lines_run(boot: str, project: Path, empty: dict[str, str], tmp_path: Path) -> None:
    output = output_of([*java(project), MAIN], tmp_path, empty)
    assert f"(v{boot})" in output
    assert "\nmine, with fencing token " in output
    assert "vouchers: bought, with fencing token " in output
    assert "shop: mine, with fencing token " in output
    for name, part in ((STARTERS[boot], ""), (starters.COMMON, ""), (jars.ARTIFACT, ""), (jars.ARTIFACT, f"-{OWN}")):
        ran(jars.target(f"{part}.jar", name), HERE)


def test_all_of_spring_boot_has_one_version(boot: str, project: Path) -> None:
    of_boot = [jar.name for jar in (project / "lib").glob("spring-boot*.jar")]
    assert of_boot
    assert [name for name in of_boot if not name.endswith(f"-{boot}.jar")] == []


def test_without_the_native_library_the_error_names_it(project: Path, empty: dict[str, str], tmp_path: Path) -> None:
    output = failed([*java(project, without=OWN), MAIN], tmp_path, empty)
    assert f"the native library for {this_platform().jna} is not on the class path" in output
    assert f"with the classifier {OWN}" in output
