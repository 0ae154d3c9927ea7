package io.github.steadlock.spring.autoconfigure;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.springframework.boot.json.JsonParserFactory;

/**
 * Checks that the table of properties in README.md equals the metadata that editors show. Writes the
 * table if {@code -Dwrite.properties=true} is given.
 */
class PropertiesTableTest {
    private static final Path README = Path.of("../README.md");
    private static final String HEAD = "| property | default | meaning |\n|---|---|---|\n";

    @Test
    void the_property_table_in_the_readme_matches_the_metadata() throws IOException {
        String readme = Files.readString(README);
        String table =
                readme.substring(
                        readme.indexOf("<!-- properties -->\n") + "<!-- properties -->\n".length(),
                        readme.indexOf("<!-- end of properties -->"));
        if (Boolean.getBoolean("write.properties")) {
            Files.writeString(README, readme.replace(table, expected()));
            return;
        }
        assertThat(table).isEqualTo(expected());
    }

    private static String expected() throws IOException {
        var rows = new TreeMap<String, String>();
        for (Map<?, ?> property : properties()) {
            String name = (String) property.get("name");
            if (name.startsWith("steadlock.")) {
                Object value = property.get("defaultValue");
                String shown = value == null || value.equals("") ? "" : "`" + value + "`";
                String meaning = ((String) property.get("description")).replaceAll("\\s+", " ");
                rows.put(name, "| `" + name + "` | " + shown + " | " + meaning + " |\n");
            }
        }
        return HEAD + String.join("", rows.values());
    }

    static List<Map<?, ?>> properties() throws IOException {
        String path = "META-INF/spring-configuration-metadata.json";
        for (URL url :
                Collections.list(
                        PropertiesTableTest.class.getClassLoader().getResources(path))) {
            try (InputStream stream = url.openStream()) {
                String text = new String(stream.readAllBytes(), StandardCharsets.UTF_8);
                if (text.contains("\"steadlock.url\"")) {
                    @SuppressWarnings("unchecked")
                    var found =
                            (List<Map<?, ?>>)
                                    JsonParserFactory.getJsonParser()
                                            .parseMap(text)
                                            .get("properties");
                    return found;
                }
            }
        }
        throw new AssertionError("there are no metadata of the properties");
    }
}
