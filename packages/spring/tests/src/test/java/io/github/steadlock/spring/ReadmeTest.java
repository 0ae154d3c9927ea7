package io.github.steadlock.spring;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;

/** Tests that the code of the READMEs, unchanged, is a program that starts and locks. */
@ExtendWith(OutputCaptureExtension.class)
class ReadmeTest {
    private static final Path SPRING = Path.of("..", "README.md");
    private static final Path PROJECT = Path.of("..", "..", "..", "README.md");

    @Test
    void the_snippets_of_the_readmes_compile(@TempDir Path folder, CapturedOutput output)
            throws Exception {
        List<String> classes =
                blocks(SPRING, "java").stream().filter(block -> block.startsWith("package")).toList();
        assertThat(classes).hasSize(2);
        compile(folder, "ShopApplication", classes.get(0));
        compile(folder, "Vouchers", classes.get(1));
        compile(folder, "Shop", shopOf(onlyLocked(blocks(PROJECT, "java"))));
        String property = blocks(SPRING, "properties").get(0).strip();
        try (var server = new RedisServer();
                var loader = new URLClassLoader(new URL[] {folder.toUri().toURL()})) {
            Thread.currentThread().setContextClassLoader(loader);
            var program =
                    new SpringApplicationBuilder(loader.loadClass("com.example.shop.ShopApplication"))
                            .web(WebApplicationType.NONE)
                            .properties(property.replace("redis://localhost:6379", server.url()));
            try (var context = program.run()) {
                assertThat(output).contains("mine, with fencing token 1");
                for (String name : List.of("Vouchers", "Shop")) {
                    Object bean = context.getBean(loader.loadClass("com.example.shop." + name));
                    Object said = bean.getClass().getMethod("buy", long.class).invoke(bean, 7L);
                    assertThat(said).asString().contains("with fencing token ");
                }
            }
        } finally {
            Thread.currentThread().setContextClassLoader(ReadmeTest.class.getClassLoader());
        }
    }

    private static String onlyLocked(List<String> blocks) {
        var locked = blocks.stream().filter(block -> block.startsWith("@DistributedLock")).toList();
        assertThat(locked).hasSize(1);
        return locked.get(0);
    }

    private static String shopOf(String method) {
        return "package com.example.shop;\nimport io.github.steadlock.spring.*;\n"
                + "@org.springframework.stereotype.Service\npublic class Shop {\n"
                + method
                + "}\n";
    }

    private static List<String> blocks(Path file, String language) throws IOException {
        var found = new ArrayList<String>();
        var block = Pattern.compile("^```" + language + "\n(.*?)^```", Pattern.DOTALL | Pattern.MULTILINE);
        var matcher = block.matcher(Files.readString(file));
        while (matcher.find()) {
            found.add(matcher.group(1));
        }
        return found;
    }

    private static void compile(Path folder, String name, String source) throws IOException {
        Path file = folder.resolve(name + ".java");
        Files.writeString(file, source);
        int status =
                ToolProvider.getSystemJavaCompiler()
                        .run(
                                null,
                                System.out,
                                System.err,
                                "-parameters",
                                "-proc:none",
                                "-cp",
                                System.getProperty("java.class.path"),
                                "-d",
                                folder.toString(),
                                file.toString());
        assertThat(status).isZero();
    }
}
