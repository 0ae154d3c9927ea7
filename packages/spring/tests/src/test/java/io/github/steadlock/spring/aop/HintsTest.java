package io.github.steadlock.spring.aop;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.steadlock.SteadlockException;
import io.github.steadlock.spring.DistributedLock;
import io.github.steadlock.spring.autoconfigure.SteadlockAutoConfiguration;
import io.github.steadlock.spring.autoconfigure.SteadlockProperties;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.reflect.Method;
import java.util.List;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.springframework.aot.generate.ClassNameGenerator;
import org.springframework.aot.generate.DefaultGenerationContext;
import org.springframework.aot.generate.InMemoryGeneratedFiles;
import org.springframework.aot.hint.RuntimeHints;
import org.springframework.aot.hint.TypeReference;
import org.springframework.aot.hint.predicate.RuntimeHintsPredicates;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.aot.ApplicationContextAotGenerator;
import org.springframework.core.annotation.AliasFor;
import org.springframework.javapoet.ClassName;

/** Tests the hints for a native image of a program. */
class HintsTest {
    private final RuntimeHints hints = hintsOf(Config.class);

    @Test
    void annotated_methods_can_be_called() {
        assertCalled(Shop.class, "buy");
        assertCalled(Catalogue.class, "price");
    }

    @Test
    void private_and_inherited_busy_handlers_can_be_called() {
        assertCalled(Shop.class, "busy");
        assertCalled(Base.class, "busyBelow");
    }

    @Test
    void the_annotation_and_composed_annotations_can_be_read() {
        assertHints(RuntimeHintsPredicates.proxies().forInterfaces(DistributedLock.class));
        assertCalled(DistributedLock.class, "busyHandler");
        assertCalled(Exclusive.class, "value");
    }

    @Test
    void a_name_can_read_properties_of_properties_of_arguments() {
        assertCalled(Order.class, "getCustomer");
        assertCalled(Customer.class, "name");
    }

    @Test
    void a_name_can_read_fields_elements_and_arguments_by_number() {
        assertHints(RuntimeHintsPredicates.reflection().onField(Line.class, "item"));
        assertCalled(Line.class, "number");
    }

    @Test
    void a_name_can_read_beans_and_the_call() {
        assertCalled(Region.class, "of");
        assertCalled(LockName.Root.class, "getMethodName");
    }

    @Test
    void properties_that_no_name_reads_have_no_hints() {
        assertThat(RuntimeHintsPredicates.reflection().onMethod(method(Order.class, "unread")).invoke())
                .rejects(hints);
    }

    @Test
    void a_method_with_a_malformed_name_can_be_called() {
        assertCalled(Malformed.class, "run");
    }

    @Test
    void spring_properties_and_optional_classes_have_hints() {
        for (String name :
                List.of(
                        "io.github.steadlock.spring.autoconfigure.SpringRedis",
                        "io.github.steadlock.spring.autoconfigure.SpringRedis$Ssl",
                        SteadlockProperties.Sentinel.class.getName(),
                        "io.micrometer.core.instrument.MeterRegistry",
                        "reactor.core.publisher.Mono")) {
            assertHints(RuntimeHintsPredicates.reflection().onType(TypeReference.of(name)));
        }
    }

    private void assertCalled(Class<?> type, String name) {
        assertHints(RuntimeHintsPredicates.reflection().onMethod(method(type, name)).invoke());
    }

    private void assertHints(Predicate<RuntimeHints> predicate) {
        assertThat(predicate).accepts(hints);
    }

    private static Method method(Class<?> type, String name) {
        return Stream.of(type.getDeclaredMethods())
                .filter(it -> it.getName().equals(name))
                .findFirst()
                .orElseThrow();
    }

    static RuntimeHints hintsOf(Class<?> configuration) {
        var generation =
                new DefaultGenerationContext(
                        new ClassNameGenerator(ClassName.get("com.example", "Program")),
                        new InMemoryGeneratedFiles());
        try (var context = new AnnotationConfigApplicationContext()) {
            context.register(
                    configuration,
                    SteadlockAutoConfiguration.class,
                    DistributedLockAutoConfiguration.class);
            new ApplicationContextAotGenerator().processAheadOfTime(context, generation);
        }
        return generation.getRuntimeHints();
    }

    interface Catalogue {
        @DistributedLock(name = "'price'")
        String price();
    }

    @Retention(RetentionPolicy.RUNTIME)
    @DistributedLock(name = "")
    @interface Exclusive {
        @AliasFor(annotation = DistributedLock.class, attribute = "name")
        String value();
    }

    static class Order {
        public Customer getCustomer() {
            return null;
        }

        public String unread() {
            return null;
        }
    }

    record Customer(String name) {}

    static class Line {
        public String item;

        public int number() {
            return 0;
        }
    }

    static class Region {
        public String of(String item) {
            return item;
        }
    }

    static class Base {
        String busyBelow() {
            return null;
        }
    }

    static class Shop extends Base implements Catalogue {
        @DistributedLock(name = "'order:' + #order.customer.name", busyHandler = "busy")
        public String buy(Order order) {
            return null;
        }

        private String busy(Order order, SteadlockException why) {
            return null;
        }

        @DistributedLock(name = "lines:#{#p0.![item]}:#{#a1[0].number()}")
        public String pack(List<Line> lines, Line[] more) {
            return null;
        }

        @DistributedLock(name = "@region.of(methodName) + '${no.such.property}'")
        public String inRegion() {
            return null;
        }

        @Exclusive("'till'")
        public String count() {
            return null;
        }

        @DistributedLock(name = "'below'", busyHandler = "busyBelow")
        public String below() {
            return null;
        }

        @Override
        public String price() {
            return null;
        }
    }

    static class Malformed {
        @DistributedLock(name = "${no.such.property} +")
        public void run() {}
    }

    @Configuration(proxyBeanMethods = false)
    static class Config {
        @Bean
        Shop shop() {
            return new Shop();
        }

        @Bean
        Malformed malformed() {
            return new Malformed();
        }

        @Bean
        Region region() {
            return new Region();
        }
    }
}
