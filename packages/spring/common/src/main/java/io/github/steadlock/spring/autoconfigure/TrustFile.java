package io.github.steadlock.spring.autoconfigure;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.boot.ssl.SslBundle;

/**
 * The authorities of an SSL bundle in a file, because the client reads files. Only the owner can
 * read the file. A private key is never written to a file.
 */
final class TrustFile implements AutoCloseable {
    private static final Logger log = LoggerFactory.getLogger("io.github.steadlock");

    private final Path path;

    private TrustFile(Path path) {
        this.path = path;
    }

    /**
     * Returns the file for {@code bundle}, or null if the bundle trusts the authorities of the
     * system.
     *
     * @param property the property that names the bundle
     * @param hasClientCertificate whether properties name a certificate and a key; a key store of
     *     the bundle is ignored then
     * @throws SteadlockStartException if the bundle cannot be used
     */
    static TrustFile of(SslBundle bundle, String property, boolean hasClientCertificate) {
        if (bundle.getStores().getKeyStore() != null && !hasClientCertificate) {
            throw refused(
                    property,
                    "its bundle has a key store, which the client cannot use, as it reads"
                            + " certificates and keys from PEM files",
                    "Give steadlock.ssl.cert-file and steadlock.ssl.key-file.");
        }
        if (bundle.getOptions().getCiphers() != null
                || bundle.getOptions().getEnabledProtocols() != null) {
            log.warn(
                    "{}: the ciphers and protocols of the bundle are ignored for locks, which use"
                            + " TLS 1.2 or 1.3 with ciphers of the client",
                    property);
        }
        KeyStore trusted = bundle.getStores().getTrustStore();
        try {
            return trusted == null ? null : new TrustFile(write(trusted, property));
        } catch (GeneralSecurityException | IOException failed) {
            throw refused(
                    property,
                    "the trust store of its bundle cannot be written to a file: " + failed,
                    "Give steadlock.ssl.ca-file.");
        }
    }

    Path path() {
        return path;
    }

    @Override
    public void close() {
        try {
            Files.deleteIfExists(path);
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
    }

    private static Path write(KeyStore trusted, String property)
            throws GeneralSecurityException, IOException {
        var text = new StringBuilder();
        for (String alias : Collections.list(trusted.aliases())) {
            if (trusted.isCertificateEntry(alias)) {
                byte[] bytes = trusted.getCertificate(alias).getEncoded();
                text.append("-----BEGIN CERTIFICATE-----\n");
                text.append(Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(bytes));
                text.append("\n-----END CERTIFICATE-----\n");
            }
        }
        if (text.isEmpty()) {
            throw refused(
                    property,
                    "the trust store of its bundle has no certificate",
                    "Give it one, or give steadlock.ssl.ca-file.");
        }
        // The JDK's createTempFile makes a file that only its owner can read.
        Path path = Files.createTempFile("steadlock-trust", ".pem");
        path.toFile().deleteOnExit();
        Files.write(path, text.toString().getBytes(StandardCharsets.US_ASCII));
        return path;
    }

    private static SteadlockStartException refused(String property, String wrong, String action) {
        return SteadlockStartException.ofProperties(List.of(property), null, wrong, action);
    }
}
