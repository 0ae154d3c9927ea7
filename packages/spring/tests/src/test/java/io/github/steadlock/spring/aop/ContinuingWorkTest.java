package io.github.steadlock.spring.aop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.DistributedLock;
import io.github.steadlock.spring.InvalidAnnotationException;
import io.github.steadlock.spring.OnBusy;
import java.lang.reflect.Method;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.core.ResolvableType;
import org.springframework.http.ResponseEntity;
import org.springframework.web.context.request.async.DeferredResult;
import org.springframework.web.context.request.async.WebAsyncTask;
import org.springframework.web.servlet.mvc.method.annotation.SseEmitter;
import org.springframework.web.servlet.mvc.method.annotation.StreamingResponseBody;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Tests methods whose work continues after they have returned. */
@ExtendWith(OutputCaptureExtension.class)
class ContinuingWorkTest {
    @Test
    void the_type_argument_of_a_class_decides_when_a_call_ends() {
        Programs.program()
                .withBean("stages", Stages.class)
                .withBean("monos", Monos.class)
                .run(
                        context -> {
                            var lock = context.getBean(SteadlockClient.class).lock("generic");
                            var work = new CompletableFuture<String>();
                            var result = context.getBean(Stages.class).run(work);
                            assertThat(lock.isLocked()).isTrue();
                            work.complete("done");
                            assertThat(result.join()).isEqualTo("done");
                            assertThat(lock.isLocked()).isFalse();

                            var late = new CompletableFuture<String>();
                            var mono = context.getBean(Monos.class).run(late);
                            assertThat(lock.isLocked()).isFalse();
                            var given = mono.toFuture();
                            Programs.await(Monos.BEGUN);
                            assertThat(lock.isLocked()).isTrue();
                            late.complete("done");
                            assertThat(given.join()).isEqualTo("done");
                            assertThat(lock.isLocked()).isFalse();
                        });
    }

    @Test
    void the_type_argument_of_a_class_decides_the_empty_result() {
        Programs.program()
                .withBean("optionals", Optionals.class)
                .run(
                        context ->
                                AnnotationTest.busy(
                                        context.getBean(SteadlockClient.class),
                                        "generic",
                                        () ->
                                                assertThat(
                                                                context.getBean(Optionals.class)
                                                                        .skipped())
                                                        .isEmpty()));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "future",
                "task",
                "callable",
                "deferred",
                "webTask",
                "emitter",
                "body",
                "response",
                "streaming",
                "optional",
                "list",
                "array",
                "map",
                "deep",
                "monoOfStage",
                "stageOfMono",
                "fluxOfResponses",
            })
    void a_type_with_continuing_work_stops_the_start(String method) {
        assertThatThrownBy(() -> shapeOf(method))
                .isInstanceOf(InvalidAnnotationException.class)
                .hasMessageStartingWith("here: work goes on behind a ")
                .hasMessageContaining("released too early");
    }

    @ParameterizedTest
    @ValueSource(strings = {"path", "values", "stage", "monoOfValues", "wildcard", "raw", "nothing"})
    void other_types_are_accepted(String method) throws NoSuchMethodException {
        shapeOf(method);
    }

    @Test
    void a_result_with_undeclared_continuing_work_is_refused() {
        with(
                (shop, client) -> {
                    for (Object late :
                            List.of(
                                    new CompletableFuture<>(),
                                    Mono.never(),
                                    Flux.never(),
                                    new FutureTask<>(() -> 1),
                                    new DeferredResult<>(),
                                    new SseEmitter(),
                                    Optional.of(Mono.never()),
                                    ResponseEntity.ok(Flux.never()))) {
                        refused(() -> shop.any(late), "java.lang.Object");
                        refused(() -> shop.generic(late), "T");
                        refused(() -> shop.stage(late).join(), "java.util.concurrent.CompletableFuture<java.lang.Object>");
                        refused(() -> shop.mono(late).block(), "reactor.core.publisher.Mono<java.lang.Object>");
                        assertThat(client.lock("any").isLocked()).isFalse();
                    }
                    for (Object early :
                            List.of("text", List.of(1), Optional.of(1), ResponseEntity.ok(1))) {
                        assertThat(shop.any(early)).isEqualTo(early);
                        assertThat(shop.stage(early).join()).isEqualTo(early);
                        assertThat(shop.mono(early).block()).isEqualTo(early);
                    }
                    assertThat(shop.any(null)).isNull();
                    assertThat(shop.any(Optional.empty())).isEqualTo(Optional.empty());
                });
    }

    @Test
    void a_lazy_result_causes_a_warning(CapturedOutput log) {
        Programs.program()
                .withBean("lazy", Lazy.class)
                .run(context -> assertThat(context).hasNotFailed());
        for (String method : List.of("stream", "iterator", "supplier")) {
            assertThat(log.getOut()).contains("Lazy." + method + "() returns a java.util.");
        }
        assertThat(log.getOut())
                .contains("uses it without the lock")
                .doesNotContain("Lazy.own()")
                .doesNotContain("Lazy.list()");
    }

    @Test
    void a_body_that_keeps_a_lock_causes_a_warning(CapturedOutput log) {
        with(
                (shop, client) -> {
                    shop.run(() -> client.lock("any").lock());
                    assertThat(client.lock("any").isHeldByCurrentThread()).isTrue();
                    assertThat(log.getOut()).containsOnlyOnce("its thread still holds it");
                    shop.run(() -> {});
                    client.lock("any").unlock();
                    assertThat(client.lock("any").isLocked()).isFalse();
                    shop.run(
                            () -> {
                                client.lock("any").lock();
                                client.lock("any").unlock();
                            });
                    assertThat(log.getOut()).containsOnlyOnce("its thread still holds it");
                });
    }

    private static CallShape shapeOf(String method) throws NoSuchMethodException {
        Method declared = Declared.class.getDeclaredMethod(method);
        return CallShape.of("here", declared, ResolvableType.forMethodReturnType(declared));
    }

    private static void refused(Supplier<?> call, String declared) {
        assertThatThrownBy(
                        () -> {
                            try {
                                call.get();
                            } catch (CompletionException failed) {
                                throw failed.getCause();
                            }
                        })
                .isInstanceOf(InvalidAnnotationException.class)
                .hasMessageContaining("declared to return " + declared + " and returned ")
                .hasMessageContaining("declare the type that it returns");
    }

    private static void with(java.util.function.BiConsumer<Shop, SteadlockClient> test) {
        Programs.program()
                .withBean("shop", Shop.class)
                .run(
                        context ->
                                test.accept(
                                        context.getBean(Shop.class),
                                        context.getBean(SteadlockClient.class)));
    }

    abstract static class Generic<R> {
        @DistributedLock(name = "'generic'")
        public R run(CompletableFuture<String> work) {
            return begin(work);
        }

        @DistributedLock(name = "'generic'", waitTime = "0s", onBusy = OnBusy.SKIP)
        public R skipped() {
            throw new AssertionError("it ran");
        }

        abstract R begin(CompletableFuture<String> work);
    }

    static class Stages extends Generic<CompletableFuture<String>> {
        @Override
        CompletableFuture<String> begin(CompletableFuture<String> work) {
            return work;
        }
    }

    static class Monos extends Generic<Mono<String>> {
        static final CountDownLatch BEGUN = new CountDownLatch(1);

        @Override
        Mono<String> begin(CompletableFuture<String> work) {
            BEGUN.countDown();
            return Mono.fromFuture(work);
        }
    }

    static class Optionals extends Generic<Optional<String>> {
        @Override
        Optional<String> begin(CompletableFuture<String> work) {
            return Optional.empty();
        }
    }

    static class Shop {
        @DistributedLock(name = "'any'")
        public Object any(Object result) {
            return result;
        }

        @DistributedLock(name = "'any'")
        public <T> T generic(T result) {
            return result;
        }

        @DistributedLock(name = "'any'")
        public CompletableFuture<Object> stage(Object result) {
            return CompletableFuture.completedFuture(result);
        }

        @DistributedLock(name = "'any'")
        public Mono<Object> mono(Object result) {
            return Mono.just(result);
        }

        @DistributedLock(name = "'any'")
        public void run(Runnable body) {
            body.run();
        }
    }

    static class Lazy {
        @DistributedLock(name = "'a'")
        public Stream<String> stream() {
            return Stream.of();
        }

        @DistributedLock(name = "'a'")
        public Iterator<String> iterator() {
            return List.<String>of().iterator();
        }

        @DistributedLock(name = "'a'")
        public Supplier<String> supplier() {
            return () -> "";
        }

        @DistributedLock(name = "'a'")
        public Own own() {
            return null;
        }

        @DistributedLock(name = "'a'")
        public List<String> list() {
            return List.of();
        }
    }

    interface Own extends Runnable {}

    interface Declared {
        Future<String> future();

        FutureTask<String> task();

        Callable<String> callable();

        DeferredResult<String> deferred();

        WebAsyncTask<String> webTask();

        SseEmitter emitter();

        StreamingResponseBody body();

        ResponseEntity<Mono<String>> response();

        ResponseEntity<StreamingResponseBody> streaming();

        Optional<CompletableFuture<String>> optional();

        List<CompletableFuture<String>> list();

        CompletableFuture<String>[] array();

        Map<String, Flux<String>> map();

        ResponseEntity<List<Optional<Mono<String>>>> deep();

        Mono<CompletableFuture<String>> monoOfStage();

        CompletableFuture<Mono<String>> stageOfMono();

        Flux<ResponseEntity<Flux<String>>> fluxOfResponses();

        Path path();

        Map<String, List<String>> values();

        CompletableFuture<List<String>> stage();

        Mono<List<String>> monoOfValues();

        ResponseEntity<?> wildcard();

        @SuppressWarnings("rawtypes")
        Map raw();

        void nothing();
    }
}
