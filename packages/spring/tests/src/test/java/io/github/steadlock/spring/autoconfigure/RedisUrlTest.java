package io.github.steadlock.spring.autoconfigure;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.junit.jupiter.api.Test;

/** Tests URLs that are made of parts, and their form in messages. */
class RedisUrlTest {
    @Test
    void each_way_to_name_a_server_has_its_url() {
        assertThat(RedisUrl.of("shop", null).text()).isEqualTo("redis://shop");
        assertThat(RedisUrl.of("::1", 6380).withTls(true).withDatabase(3).text())
                .isEqualTo("rediss://[::1]:6380/3");
        assertThat(RedisUrl.ofCluster(List.of("a:1", "b:2")).withLogin("u", "p").text())
                .isEqualTo("redis+cluster://u:p@a:1,b:2");
        assertThat(
                        RedisUrl.ofSentinels(List.of("a", "b:2"), "main")
                                .withTls(true)
                                .withLogin(null, "p")
                                .withSentinelLogin("watch", "w")
                                .withDatabase(1)
                                .text())
                .isEqualTo(
                        "rediss+sentinel://:p@a,b:2/main/1?sentinel_user=watch&sentinel_password=w");
    }

    @Test
    void a_password_can_have_any_characters() {
        assertThat(RedisUrl.of("h", 1).withLogin("a:b", "p@/ ?*ü%").text())
                .isEqualTo("redis://a%3Ab:p%40%2F%20%3F%2A%C3%BC%25@h:1");
    }

    @Test
    void the_scheme_of_a_url_shows_tls() {
        for (String url :
                List.of(
                        "rediss://h",
                        " rediss://h\n",
                        "\uFEFFREDISS://h",
                        "valkeys://:p@h:1/2",
                        "rediss+sentinel://a,b/m",
                        "valkeys+cluster://a,b")) {
            assertThat(RedisUrl.hasTls(url)).as(url).isTrue();
            assertThat(RedisUrl.withTls(url)).as(url).isEqualTo(url);
        }
        for (String url :
                List.of(
                        "redis://h",
                        " valkey://h",
                        "redis+sentinel://a/rediss:",
                        "unix:///rediss:",
                        "redis://rediss:p@h",
                        "memory://",
                        "")) {
            assertThat(RedisUrl.hasTls(url)).as(url).isFalse();
        }
    }

    @Test
    void each_form_of_url_can_get_tls() {
        assertThat(RedisUrl.withTls("redis://redis:p@h")).isEqualTo("rediss://redis:p@h");
        assertThat(RedisUrl.withTls(" Redis://h\n")).isEqualTo(" Rediss://h\n");
        assertThat(RedisUrl.withTls("valkey://h")).isEqualTo("valkeys://h");
        assertThat(RedisUrl.withTls("valkey+cluster://a,b")).isEqualTo("valkeys+cluster://a,b");
        assertThat(RedisUrl.withTls("redis+sentinel://a/m")).isEqualTo("rediss+sentinel://a/m");
        for (String url : List.of("redis+unix:///p", "unix:///redis:", "memory://redis:")) {
            assertThat(RedisUrl.withTls(url)).as(url).isEqualTo(url);
        }
    }

    @Test
    void messages_show_neither_user_nor_password() {
        assertThat(RedisUrl.shown("redis://user:secret@host:1/2")).isEqualTo("redis://host:1/2");
        assertThat(RedisUrl.shown("redis+sentinel://:secret@a,b/m?sentinel_password=secret"))
                .isEqualTo("redis+sentinel://a,b/m");
        for (String odd :
                List.of(
                        "redis://:sec/ret@host",
                        "redis://:sec?ret@host",
                        "redis+sentinel://a/m?sentinel_password=x@sec",
                        "sec:ret@host")) {
            assertThat(RedisUrl.shown(odd)).as(odd).doesNotContain("sec", "ret");
        }
        assertThat(RedisUrl.of("h", 1).withLogin("u", "secret").toString())
                .isEqualTo("redis://h:1");
    }
}
