package io.github.steadlock.spring.aop;

import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.InvalidAnnotationException;
import java.util.List;
import org.springframework.beans.factory.BeanFactoryUtils;
import org.springframework.beans.factory.BeanNotOfRequiredTypeException;
import org.springframework.beans.factory.NoSuchBeanDefinitionException;
import org.springframework.beans.factory.NoUniqueBeanDefinitionException;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;

/** The clients of the program, which annotations refer to by bean name. */
final class LockClients {
    private final ConfigurableListableBeanFactory beans;

    LockClients(ConfigurableListableBeanFactory beans) {
        this.beans = beans;
    }

    /**
     * Returns the client of an annotated method. The exceptions have no cause, because Spring Boot
     * would report the cause instead.
     *
     * @param where the method as messages name it
     * @param attribute the name of a bean, or a placeholder; empty for the only or the primary
     *     client
     * @throws InvalidAnnotationException if there is no such client
     */
    SteadlockClient of(String where, String attribute) {
        return attribute.isEmpty() ? single(where) : named(where, attribute);
    }

    private SteadlockClient single(String where) {
        try {
            return beans.getBean(SteadlockClient.class);
        } catch (NoUniqueBeanDefinitionException several) {
            throw new InvalidAnnotationException(
                    where
                            + " names no client, and none of several is @Primary: "
                            + names()
                            + "; name one by client = \"…\", or let one be @Primary");
        } catch (NoSuchBeanDefinitionException none) {
            throw new InvalidAnnotationException(
                    where
                            + " needs a SteadlockClient, and there is none: set steadlock.url (and leave"
                            + " steadlock.enabled out), or let the program have a bean of its own");
        }
    }

    private SteadlockClient named(String where, String attribute) {
        String said = where + ": client = \"" + attribute + "\" ";
        try {
            return beans.getBean(nameIn(said, attribute), SteadlockClient.class);
        } catch (BeanNotOfRequiredTypeException other) {
            throw new InvalidAnnotationException(
                    said
                            + "names a bean of "
                            + other.getActualType().getName()
                            + ", which is not a SteadlockClient; "
                            + known());
        } catch (NoSuchBeanDefinitionException none) {
            throw new InvalidAnnotationException(
                    said + "names no bean (\"" + none.getBeanName() + "\"); " + known());
        }
    }

    private String nameIn(String said, String attribute) {
        String name;
        try {
            name = beans.resolveEmbeddedValue(attribute);
        } catch (IllegalArgumentException unknown) {
            throw new InvalidAnnotationException(said + "cannot be read: " + unknown.getMessage());
        }
        if (name == null || name.isBlank()) {
            throw new InvalidAnnotationException(said + "is blank; " + known());
        }
        return name;
    }

    private String known() {
        return names().isEmpty() ? "there is no client" : "the clients are " + names();
    }

    private String names() {
        String[] names =
                BeanFactoryUtils.beanNamesForTypeIncludingAncestors(beans, SteadlockClient.class);
        return String.join(", ", List.of(names));
    }
}
