package io.github.steadlock.spring.aop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.CurrentLease;
import io.github.steadlock.spring.DistributedLock;
import io.github.steadlock.spring.autoconfigure.SteadlockAutoConfiguration;
import jakarta.annotation.PostConstruct;
import jakarta.annotation.PreDestroy;
import java.util.List;
import java.util.concurrent.Callable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.beans.factory.DisposableBean;
import org.springframework.beans.factory.FactoryBean;
import org.springframework.beans.factory.InitializingBean;
import org.springframework.beans.factory.config.BeanPostProcessor;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.ImportAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.PriorityOrdered;
import org.springframework.scheduling.annotation.Async;
import org.springframework.scheduling.annotation.EnableAsync;

/** Tests the warnings at the start of a program, about annotations that do not work as written. */
@ExtendWith(OutputCaptureExtension.class)
class StartScanTest {
    @Test
    void methods_without_a_proxy_cause_a_warning(CapturedOutput log) {
        started(Unreachable.class);
        assertThat(log.getOut())
                .contains(
                        "Unreachable.hidden() does not count, so no lock is acquired: it is private")
                .contains(
                        "Unreachable.closed() does not count, so no lock is acquired: it is final")
                .contains(
                        "Unreachable.ofTheClass() does not count, so no lock is acquired: it is static")
                .doesNotContain("Unreachable.fine()");
    }

    @Test
    void async_methods_cause_a_warning(CapturedOutput log) {
        started(Later.class);
        assertThat(log.getOut())
                .contains("Later.send() which is @Async")
                .contains("reaches only the AsyncUncaughtExceptionHandler");
    }

    @Test
    void a_bean_without_a_proxy_causes_a_warning(CapturedOutput log) {
        Programs.program(EarlyConfig.class).run(context -> assertThat(context).hasNotFailed());
        assertThat(log.getOut())
                .contains(
                        "Early.run() does not count, so no lock is acquired: its bean has no proxy: it was made before");
    }

    @Test
    void lifecycle_methods_cause_a_warning(CapturedOutput log) {
        Programs.program(WithLifecycle.class).run(context -> assertThat(context).hasNotFailed());
        for (String method :
                List.of("begin", "end", "start", "stop", "afterPropertiesSet", "destroy")) {
            assertThat(log.getOut())
                    .contains("$Living." + method + "() does not count where Spring calls it");
        }
        assertThat(log.getOut()).doesNotContain("Living.work()");
    }

    @Test
    void products_of_a_factory_cause_no_warning(CapturedOutput log) {
        Programs.program()
                .withBean("product", Factory.class)
                .run(
                        context -> {
                            var product = context.getBean(Product.class);
                            assertThat(product.isLocked()).isTrue();
                        });
        assertThat(log.getOut()).doesNotContain("does not count");
    }

    @Test
    void a_failed_start_names_the_annotation(CapturedOutput log) {
        for (Class<?> wrong : List.of(WrongClient.class, WrongName.class)) {
            var program =
                    new SpringApplicationBuilder(wrong, Started.class)
                            .web(WebApplicationType.NONE)
                            .properties("steadlock.url=memory://");
            assertThatThrownBy(program::run).isInstanceOf(RuntimeException.class);
            assertThat(log.getOut())
                    .contains("APPLICATION FAILED TO START")
                    .contains("Description:\n\n@DistributedLock on " + wrong.getName() + ".sell()")
                    .contains("Correct the annotation as the message says.");
        }
        assertThat(log.getOut())
                .contains("client = \"nope\" names no bean (\"nope\"); the clients are ")
                .doesNotContain("Consider defining a bean");
    }

    @Test
    void a_bean_of_a_final_class_stops_the_start() {
        Programs.program()
                .withBean("closed", Closed.class)
                .run(
                        context ->
                                assertThat(context)
                                        .getFailure()
                                        .hasMessageContaining("final class"));
    }

    @Test
    void a_bean_of_a_final_class_is_locked_by_its_interface() {
        Programs.program()
                .withBean("closed", Closed.class)
                .withPropertyValues("spring.aop.proxy-target-class=false")
                .run(context -> assertThat(context.getBean(Callable.class).call()).isEqualTo(true));
    }

    @Test
    void a_correct_class_causes_no_warning(CapturedOutput log) {
        Programs.program()
                .withBean("fine", Fine.class)
                .run(
                        context -> {
                            context.getBean(Fine.class).run();
                            assertThat(
                                            context.getBean(SteadlockClient.class)
                                                    .lock("fine")
                                                    .isLocked())
                                    .isFalse();
                        });
        assertThat(log.getOut()).doesNotContain("@DistributedLock on");
    }

    private static <T> void started(Class<T> type) {
        Programs.program(AsyncConfig.class)
                .withBean("bean", type)
                .run(context -> assertThat(context).hasNotFailed());
    }

    static class Unreachable {
        @DistributedLock(name = "'a'")
        private void hidden() {}

        @DistributedLock(name = "'a'")
        public final void closed() {}

        @DistributedLock(name = "'a'")
        public static void ofTheClass() {}

        @DistributedLock(name = "'a'")
        public void fine() {}
    }

    static class Living implements InitializingBean, DisposableBean {
        @PostConstruct
        @DistributedLock(name = "'a'")
        public void begin() {}

        @PreDestroy
        @DistributedLock(name = "'a'")
        public void end() {}

        @DistributedLock(name = "'a'")
        public void start() {}

        @DistributedLock(name = "'a'")
        public void stop() {}

        @Override
        @DistributedLock(name = "'a'")
        public void afterPropertiesSet() {}

        @Override
        @DistributedLock(name = "'a'")
        public void destroy() {}

        @DistributedLock(name = "'a'")
        public void work() {}
    }

    @Configuration(proxyBeanMethods = false)
    static class WithLifecycle {
        @Bean(initMethod = "start", destroyMethod = "stop")
        Living living() {
            return new Living();
        }
    }

    static class Product {
        @DistributedLock(name = "'a'")
        public boolean isLocked() {
            return CurrentLease.find().isPresent();
        }
    }

    static class Factory implements FactoryBean<Product> {
        @Override
        public Product getObject() {
            return new Product();
        }

        @Override
        public Class<?> getObjectType() {
            return Product.class;
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ImportAutoConfiguration({
        SteadlockAutoConfiguration.class,
        DistributedLockAutoConfiguration.class
    })
    static class Started {}

    static class WrongClient {
        @DistributedLock(name = "'a'", client = "nope")
        public void sell() {}
    }

    static class WrongName {
        @DistributedLock(name = "stock")
        public void sell() {}
    }

    static class Later {
        @Async
        @DistributedLock(name = "'a'")
        public void send() {}
    }

    static class Early {
        @DistributedLock(name = "'a'")
        public void run() {}
    }

    static final class Closed implements Callable<Boolean> {
        @Override
        @DistributedLock(name = "'a'")
        public Boolean call() {
            return CurrentLease.find().isPresent();
        }
    }

    static class Fine {
        @DistributedLock(name = "'fine'")
        public void run() {}
    }

    @Configuration(proxyBeanMethods = false)
    @EnableAsync(proxyTargetClass = true)
    static class AsyncConfig {}

    @Configuration(proxyBeanMethods = false)
    static class EarlyConfig {
        @Bean
        static Early early() {
            return new Early();
        }

        @Bean
        static First needsIt(Early early) {
            return new First();
        }
    }

    static class First implements BeanPostProcessor, PriorityOrdered {
        @Override
        public int getOrder() {
            return 0;
        }
    }
}
