package io.github.steadlock.spring.autoconfigure;

import io.github.steadlock.InvalidArgumentException;
import io.github.steadlock.MisconfiguredException;
import io.github.steadlock.Steadlock;
import io.github.steadlock.SteadlockBuilder;
import io.github.steadlock.SteadlockClient;
import io.github.steadlock.SteadlockException;
import io.github.steadlock.UnavailableException;
import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The factory of the client, from steps, each of which sets a property. If the client cannot be
 * made, the factory finds the property that is wrong.
 */
final class ClientFactory {
    private static final Logger log = LoggerFactory.getLogger("io.github.steadlock");

    private final ClientSteps steps;
    private final List<SteadlockBuilderCustomizer> customizers;

    ClientFactory(ClientSteps steps, List<SteadlockBuilderCustomizer> customizers) {
        this.steps = steps;
        this.customizers = customizers;
    }

    /**
     * Makes the client. Connects, unless the client is lazy.
     *
     * @throws SteadlockStartException if a property is wrong, or the server cannot be used
     */
    SteadlockClient connect() {
        if (steps.pool() != null) {
            log.info(
                    "{} is ignored for locks, and is not needed: a client of Steadlock sends the"
                            + " calls of all threads over a few connections of its own",
                    steps.pool());
        }
        SteadlockBuilder builder = builder(steps.all().size());
        customizers.forEach(customizer -> customizer.customize(builder));
        try {
            return builder.connect();
        } catch (InvalidArgumentException | MisconfiguredException refusal) {
            throw firstRefused().orElseGet(() -> ofServer(refusal));
        } catch (UnavailableException failure) {
            throw ofServer(failure);
        }
    }

    private SteadlockBuilder builder(int number) {
        SteadlockBuilder builder = Steadlock.builder();
        for (Step step : steps.all().subList(0, number)) {
            step.apply().accept(builder);
        }
        return builder;
    }

    /**
     * Returns the failure of the first step that is wrong: makes a client that does not connect,
     * with one step more each time, until a client is refused. In this way the rules stay in the
     * client, and the error names the property.
     */
    private Optional<RuntimeException> firstRefused() {
        for (int number = 1; number <= steps.all().size(); number++) {
            try (SteadlockClient client = builder(number).lazy().connect()) {
                // The steps so far are right.
            } catch (InvalidArgumentException | MisconfiguredException refusal) {
                return Optional.of(
                        SteadlockStartException.ofRefused(steps.all().get(number - 1), refusal));
            }
        }
        return Optional.empty();
    }

    private RuntimeException ofServer(SteadlockException failure) {
        if (failure instanceof InvalidArgumentException) {
            // The properties are right, so a customizer has set the wrong value.
            return failure;
        }
        String advice =
                failure instanceof UnavailableException
                        ? "Start the server, or correct the property that names it. With"
                                + " steadlock.lazy=true the program starts without its server, and"
                                + " connects when a lock is first asked for."
                        : "Correct what the message names, at the server or in the properties.";
        return SteadlockStartException.ofServer(
                steps.serverProperties(), steps.server(), advice, failure);
    }
}
