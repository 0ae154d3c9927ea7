package io.github.steadlock.spring.autoconfigure;

import static io.github.steadlock.spring.autoconfigure.Contexts.failure;
import static io.github.steadlock.spring.autoconfigure.Contexts.runner;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.RedisServer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.util.FileSystemUtils;

/**
 * Tests TLS by files and by SSL bundles, with a server that demands a certificate and one that does
 * not.
 */
class TlsTest {
    private static Path folder;
    private static int strictPort;
    private static int port;
    private static RedisServer strict;
    private static RedisServer server;

    @BeforeAll
    static void start() throws IOException, InterruptedException {
        folder = Files.createTempDirectory("steadlock-tls");
        String make = Path.of("../../../ci/support/certificates.sh").toAbsolutePath().toString();
        assertThat(new ProcessBuilder(make, folder.toString()).start().waitFor()).isZero();
        strictPort = RedisServer.freePort();
        strict = serverAt(strictPort, "yes");
        port = RedisServer.freePort();
        server = serverAt(port, "no");
    }

    @AfterAll
    static void stop() {
        strict.close();
        server.close();
        FileSystemUtils.deleteRecursively(folder.toFile());
    }

    @Test
    void files_name_the_authority_the_certificate_and_its_key() {
        locks(
                runner(
                        "steadlock.host=localhost",
                        "steadlock.port=" + strictPort,
                        "steadlock.ssl.ca-file=" + file("ca.pem"),
                        "steadlock.ssl.cert-file=" + file("client.pem"),
                        "steadlock.ssl.key-file=" + file("client.key")));
    }

    @Test
    void the_authorities_of_a_bundle_are_in_a_private_temporary_file() {
        var seen = new Path[1];
        runner(
                        "steadlock.url=rediss://localhost:" + port,
                        "steadlock.ssl.bundle=cache",
                        "spring.ssl.bundle.pem.cache.truststore.certificate=" + file("ca.pem"))
                .run(
                        context -> {
                            assertThat(context).hasNotFailed();
                            seen[0] = context.getBean(ClientSteps.class).trustFile();
                            assertThat(
                                            PosixFilePermissions.toString(
                                                    Files.getPosixFilePermissions(seen[0])))
                                    .isEqualTo("rw-------");
                        });
        assertThat(seen[0]).doesNotExist();
    }

    @Test
    void a_bundle_of_spring_data_redis_applies_with_and_without_the_library() {
        String[] properties = {
            "spring.data.redis.host=localhost",
            "spring.data.redis.port=" + port,
            "spring.data.redis.ssl.bundle=cache",
            "spring.ssl.bundle.pem.cache.truststore.certificate=" + file("ca.pem")
        };
        locks(runner(properties));
        locks(runner(properties).withConfiguration(SpringData.autoConfiguration()));
    }

    @Test
    void a_bundle_of_steadlock_applies_to_a_server_of_spring_data_redis() {
        locks(
                runner(
                        "spring.data.redis.host=localhost",
                        "spring.data.redis.port=" + port,
                        "spring.data.redis.ssl.enabled=true",
                        "steadlock.ssl.bundle=cache",
                        "spring.ssl.bundle.pem.cache.truststore.certificate=" + file("ca.pem")));
    }

    @Test
    void a_tls_url_of_spring_data_redis_uses_tls() {
        String[] properties = {
            "spring.data.redis.url=rediss://localhost:" + port,
            "steadlock.ssl.ca-file=" + file("ca.pem")
        };
        locks(runner(properties));
        locks(runner(properties).withConfiguration(SpringData.autoConfiguration()));
    }

    @Test
    void a_bundle_with_a_key_is_refused_without_key_files() {
        String[] properties = {
            "steadlock.url=rediss://localhost:" + strictPort,
            "steadlock.ssl.bundle=cache",
            "spring.ssl.bundle.pem.cache.truststore.certificate=" + file("ca.pem"),
            "spring.ssl.bundle.pem.cache.keystore.certificate=" + file("client.pem"),
            "spring.ssl.bundle.pem.cache.keystore.private-key=" + file("client.key")
        };
        runner(properties)
                .run(
                        context -> {
                            SteadlockStartException failure = failure(context.getStartupFailure());
                            assertThat(failure.properties()).containsExactly("steadlock.ssl.bundle");
                            assertThat(failure.action()).contains("steadlock.ssl.key-file");
                        });
        locks(
                runner(properties)
                        .withPropertyValues(
                                "steadlock.ssl.cert-file=" + file("client.pem"),
                                "steadlock.ssl.key-file=" + file("client.key")));
    }

    @Test
    void a_certificate_of_another_authority_stops_the_start() {
        runner("steadlock.url=rediss://localhost:" + port, "steadlock.ssl.ca-file=" + file("other.pem"))
                .run(
                        context ->
                                assertThat(failure(context.getStartupFailure()).properties())
                                        .containsExactly("steadlock.url"));
    }

    private static void locks(ApplicationContextRunner runner) {
        runner.run(
                context -> {
                    assertThat(context).hasNotFailed();
                    assertThat(context.getBean(SteadlockServer.class).server())
                            .startsWith("rediss://");
                    var lock = context.getBean(SteadlockClient.class).lock("door");
                    assertThat(lock.tryLock()).isTrue();
                    lock.unlock();
                });
    }

    private static RedisServer serverAt(int port, String clientCertificates) {
        return new RedisServer(
                "--tls-port",
                "" + port,
                "--tls-auth-clients",
                clientCertificates,
                "--tls-cert-file",
                file("server.pem"),
                "--tls-key-file",
                file("server.key"),
                "--tls-ca-cert-file",
                file("ca.pem"));
    }

    private static String file(String name) {
        return folder.resolve(name).toString();
    }
}
