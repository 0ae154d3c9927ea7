package io.github.steadlock.spring.aop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.CurrentLease;
import io.github.steadlock.spring.DistributedLock;
import io.github.steadlock.spring.InvalidAnnotationException;
import io.github.steadlock.spring.LockKind;
import io.github.steadlock.spring.OnBusy;
import io.github.steadlock.spring.OnCancel;
import java.time.LocalDate;
import java.io.IOException;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** Tests the attributes of the annotation: the values that work and those that stop the start. */
class NameTest {
    @Test
    void names_are_expressions_templates_and_placeholders() {
        Programs.program(Names.class)
                .withPropertyValues("shop.name=corner")
                .run(
                        context -> {
                            var names = context.getBean(Naming.class);
                            assertThat(names.byName(new Order("o1"))).isEqualTo("order:o1");
                            assertThat(names.joinedObject(LocalDate.of(2026, 1, 2)))
                                    .isEqualTo("o:2026-01-02");
                            assertThat(names.joinedObject(new long[] {1, 2})).isEqualTo("o:1,2");
                            assertThat(names.two("acme", "7")).isEqualTo("acme:7");
                            assertThat(names.numbers(1, 2)).isEqualTo("3/5000000000");
                            assertThat(names.sum("7")).isEqualTo("it's 3/7");
                            assertThat(names.byIndex("x")).isEqualTo("p:x");
                            assertThat(names.template(new Order("o1"))).isEqualTo("corner/o1");
                            assertThat(names.bean()).isEqualTo("of a bean");
                            assertThat(names.root()).isEqualTo("root");
                            assertThat(names.number(7)).isEqualTo("7");
                        });
    }

    @Test
    void a_null_name_is_refused_without_an_acquisition() {
        Programs.program(Names.class)
                .withPropertyValues("shop.name=corner")
                .run(
                        context -> {
                            var names = context.getBean(Naming.class);
                            refused(
                                    () -> names.byName(new Order(null)),
                                    "#order.id in name is null");
                            refused(() -> names.byIndex(null), "#p0 in name is null");
                            refused(() -> names.template(new Order(null)), "in name is null");
                            refused(() -> names.plain(null), "name gives null");
                            refused(() -> names.two("acme", null), "#id in name is null");
                            refused(() -> names.two(null, "7"), "#tenant in name is null");
                            refused(() -> names.joinedObject(Optional.empty()), "Optional");
                            refused(() -> names.byCall(new Order(null)), "is null");
                            refused(() -> names.object(new Object()), "java.lang.Object");
                            refused(() -> names.joinedObject(new Object()), "java.lang.Object");
                            refused(() -> names.plain(""), "an empty text");
                            refused(() -> names.several(List.of()), "its collection is empty");
                            refused(
                                    () -> names.several(java.util.Arrays.asList("a", null)),
                                    "name gives null");
                            assertThat(context.getBean(SteadlockClient.class).lock("a").isLocked())
                                    .isFalse();
                        });
    }

    @Test
    void an_unquoted_word_stops_the_start() {
        stopped(
                new Object() {
                    @DistributedLock(name = "stock")
                    public void sell() {}
                },
                "sell()",
                "a literal is quoted: name = \"'stock'\"");
        stopped(
                new Object() {
                    @DistributedLock(name = "'order:' + id")
                    public void sell(long id) {}
                },
                "an argument has a #: #id");
    }

    @Test
    void a_malformed_expression_stops_the_start() {
        stopped(
                new Object() {
                    @DistributedLock(name = "stock:42")
                    public void sell() {}
                },
                "name = \"stock:42\" is not an expression");
        stopped(
                new Object() {
                    @DistributedLock(name = "'order:' + #oder")
                    public void sell(long order) {}
                },
                "an argument #oder, which does not exist; it has #order, ");
        stopped(
                new Object() {
                    @DistributedLock(name = "${no.such}:1")
                    public void sell() {}
                },
                "name = \"${no.such}:1\"");
        stopped(
                new Object() {
                    @DistributedLock(name = "")
                    public void sell() {}
                },
                "name is empty");
    }

    @Test
    void times_and_limits_are_checked_at_start() {
        stopped(
                new Object() {
                    @DistributedLock(name = "'a'", waitTime = "soon")
                    public void sell() {}
                },
                "waitTime = \"soon\" is not a duration");
        stopped(
                new Object() {
                    @DistributedLock(name = "'a'", waitTime = "-1s")
                    public void sell() {}
                },
                "negative");
        stopped(
                new Object() {
                    @DistributedLock(name = "'a'", lease = "10ms")
                    public void sell() {}
                },
                "not between 100 ms and 24 h");
        stopped(
                new Object() {
                    @DistributedLock(name = "'a'", kind = LockKind.SEMAPHORE)
                    public void sell() {}
                },
                "needs a limit");
        stopped(
                new Object() {
                    @DistributedLock(name = "'a'", limit = 3)
                    public void sell() {}
                },
                "limit is for a SEMAPHORE only");
        stopped(
                new Object() {
                    @DistributedLock(name = "'a'", onCancel = OnCancel.RELEASE)
                    public void sell() {}
                },
                "onCancel = RELEASE is for a method that returns a CompletionStage");
    }

    @Test
    void the_default_wait_is_checked_even_if_unused() {
        Programs.program()
                .withPropertyValues("steadlock.wait=-1s")
                .run(
                        context ->
                                assertThat(context)
                                        .getFailure()
                                        .rootCause()
                                        .isInstanceOf(InvalidAnnotationException.class)
                                        .hasMessage("steadlock.wait is negative: -1s"));
    }

    @Test
    void an_unsuitable_busy_handler_stops_the_start() {
        stopped(
                new Object() {
                    @DistributedLock(name = "'a'", onBusy = OnBusy.SKIP)
                    public int sell() {
                        return 1;
                    }
                },
                "of type int cannot be null");
        stopped(
                new Object() {
                    @DistributedLock(name = "'a'", busyHandler = "busy")
                    public String sell(long id) {
                        return "";
                    }
                },
                "there is no such method");
        stopped(
                new Object() {
                    @DistributedLock(name = "'a'", busyHandler = "busy")
                    public String sell(long id) {
                        return "";
                    }

                    String busy(int id) {
                        return "";
                    }
                },
                "no method of that name suits");
        stopped(
                new Object() {
                    @DistributedLock(name = "'a'", busyHandler = "busy", onBusy = OnBusy.SKIP)
                    public String sell(long id) {
                        return "";
                    }
                },
                "exclude each other");
        stopped(
                new Object() {
                    @DistributedLock(name = "'a'", busyHandler = "busy")
                    public String sell() {
                        return "";
                    }

                    String busy() throws IOException {
                        throw new IOException("no");
                    }
                },
                "busyHandler = \"busy\" throws IOException, which sell does not declare");
        stopped(
                new Object() {
                    @DistributedLock(name = "'a'", busyHandler = "sell")
                    public String sell() {
                        return "";
                    }
                },
                "busyHandler = \"sell\" is annotated with @DistributedLock itself");
    }

    @Test
    void a_result_type_with_an_unobservable_end_stops_the_start() {
        stopped(
                new Object() {
                    @DistributedLock(name = "'a'")
                    public Future<String> sell() {
                        return null;
                    }
                },
                "released too early");
    }

    @Test
    void an_annotated_method_without_a_client_stops_the_start() {
        Programs.program()
                .withBean("shop", Naming.class)
                .withPropertyValues("steadlock.enabled=false", "shop.name=x")
                .run(
                        context ->
                                assertThat(context)
                                        .getFailure()
                                        .isInstanceOf(InvalidAnnotationException.class)
                                        .hasMessageContaining(
                                                "needs a SteadlockClient, and there is none"));
    }

    private static void refused(Runnable call, String message) {
        assertThatThrownBy(call::run)
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining(message)
                .hasMessageContaining(Naming.class.getName());
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void stopped(Object bean, String... messages) {
        Programs.program()
                .withPropertyValues("spring.aop.proxy-target-class=true")
                .withBean("shop", (Class) bean.getClass(), () -> bean)
                .run(
                        context ->
                                assertThat(context)
                                        .getFailure()
                                        .isInstanceOf(InvalidAnnotationException.class)
                                        .hasMessageContaining(
                                                "@DistributedLock on " + bean.getClass().getName())
                                        .hasMessageContainingAll(messages));
    }

    record Order(String id) {}

    static class Naming {
        @DistributedLock(name = "'order:' + #order.id")
        public String byName(Order order) {
            return held();
        }

        @DistributedLock(name = "'order:' + #order.id()")
        public String byCall(Order order) {
            return held();
        }

        @DistributedLock(name = "#tenant + ':' + #id")
        public String two(Object tenant, Object id) {
            return held();
        }

        @DistributedLock(name = "#a + #b + '/' + 5000000000L")
        public String numbers(int a, int b) {
            return held();
        }

        @DistributedLock(name = "#object")
        public String object(Object object) {
            return held();
        }

        @DistributedLock(name = "'o:' + #object")
        public String joinedObject(Object object) {
            return held();
        }

        @DistributedLock(name = "'it''s ' + (1 + 2) + ('/' + #id)")
        public String sum(String id) {
            return held();
        }

        @DistributedLock(name = "'p:' + #p0")
        public String byIndex(String id) {
            return held();
        }

        @DistributedLock(name = "${shop.name}/#{#order.id}")
        public String template(Order order) {
            return held();
        }

        @DistributedLock(name = "@label")
        public String bean() {
            return held();
        }

        @DistributedLock(name = "methodName")
        public String root() {
            return held();
        }

        @DistributedLock(name = "#n")
        public String number(long n) {
            return held();
        }

        @DistributedLock(name = "#a0")
        public String plain(String name) {
            return held();
        }

        @DistributedLock(name = "#names")
        public String several(List<String> names) {
            return held();
        }

        private static String held() {
            return CurrentLease.get().getName();
        }
    }

    @Configuration
    static class Names {
        @Bean
        Naming naming() {
            return new Naming();
        }

        @Bean
        String label() {
            return "of a bean";
        }
    }
}
