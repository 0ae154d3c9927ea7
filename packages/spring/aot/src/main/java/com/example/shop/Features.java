package com.example.shop;

import io.github.steadlock.LockOptions;
import io.github.steadlock.LockTimeoutException;
import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.CommitRefusedException;
import io.github.steadlock.spring.CurrentLease;
import io.github.steadlock.spring.Waiting;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.regex.Pattern;
import org.springframework.context.ApplicationContext;
import org.springframework.integration.support.locks.LockRegistry;
import reactor.core.publisher.Mono;

/** Checks each feature of README.md, on a store in memory. */
final class Features {
    private static final Pattern LOST =
            Pattern.compile("\"name\":\"brief\"[^}]*\"reason\":\"EXPIRED\"");

    private final ApplicationContext context;
    private final SteadlockClient client;
    private final Shop shop;
    private final Stock stock;

    Features(ApplicationContext context) {
        this.context = context;
        this.client = context.getBean(SteadlockClient.class);
        this.shop = context.getBean(Shop.class);
        this.stock = context.getBean(Stock.class);
    }

    void check() {
        checkShapesAndNames();
        checkKinds();
        checkBusy();
        checkTransactions();
        checkReactiveTransactions();
        checkLockRegistry();
        checkEndpoints();
    }

    private void checkShapesAndNames() {
        Checks.equal(
                "a blocking method, by an argument",
                "voucher:7 of lock voucher:7, for one voucher each",
                shop.buy(7));
        Checks.equal(
                "a CompletableFuture, by a template", "lock stock:42", shop.buyLater("42").join());
        var picking = shop.pick("42");
        Checks.that("a CompletableFuture holds its lock", client.lock("pick:42").isLocked());
        picking.cancel(false);
        Waiting.until("onCancel = RELEASE", () -> !client.lock("pick:42").isLocked());
        var order = new Shop.Order(7, new Shop.Order.Customer("ann"));
        Checks.equal(
                "a Mono, by properties of an argument",
                "order:ann7 of lock order:ann7",
                shop.deliver(order).block());
        Checks.equal(
                "a Flux, by a collection",
                List.of("multi_lock a, b", "multi_lock a, b"),
                shop.reserve(List.of("a", "b")).collectList().block());
        Checks.equal("a name by a bean, fair", "fair_lock north:42", shop.inRegion("42"));
        Checks.equal("a name by a placeholder", "lock corner:42", shop.inShop("42"));
        Checks.equal("a second client", "lock ledger of auditLocks", shop.audit());
        Checks.equal("an annotation of the program", "mutex till", shop.count());
        Checks.equal("an annotation of an interface", "lock price:tea", shop.price("tea"));
        Checks.equal(
                "an annotation of an interface, called by it",
                "lock price:tea",
                context.getBean(Catalogue.class).price("tea"));
        Checks.that("nothing is held afterwards", CurrentLease.find().isEmpty());
    }

    private void checkKinds() {
        Checks.equal("the read side", "read_lock sheet", shop.read());
        Checks.equal("the write side", "write_lock sheet", shop.write());
        Checks.equal("a semaphore", "semaphore door", shop.enter());
    }

    private void checkBusy() {
        var till = client.mutex("till");
        till.lock();
        Checks.fails("onBusy = THROW", LockTimeoutException.class, shop::payNow);
        Checks.equal("busyHandler", "5 is not paid: LockTimeoutException", shop.pay(5));
        Checks.equal("SKIP of an Optional", Optional.empty(), shop.payOrNot());
        Checks.equal("SKIP of a Mono", null, shop.payOrNotReactively().block());
        till.unlock();
        Checks.equal("without busyHandler", "mutex till", shop.pay(5));
        Checks.equal("without SKIP", "mutex till", shop.payOrNotReactively().block());
    }

    private void checkTransactions() {
        stock.sell();
        Checks.equal("a transaction commits within its lease", 1, stock.number());
        CommitRefusedException refused =
                Checks.fails(
                        "the commit guard",
                        CommitRefusedException.class,
                        () -> {
                            stock.sellTooLate();
                            return null;
                        });
        Checks.contains("a refused commit names its lock", refused.getMessage(), "\"stock\"");
        Checks.fails(
                "CommitGuard.requireValid",
                CommitRefusedException.class,
                () -> {
                    var brief = LockOptions.DEFAULT.withLease(Duration.ofMillis(100));
                    stock.sellWithin(
                            client.lock("own").lockAsync(brief).toCompletableFuture().join());
                    return null;
                });
        Checks.equal("refused commits are rolled back", 1, stock.number());
    }

    private void checkReactiveTransactions() {
        stock.sellReactively(Mono.empty()).block();
        stock.sellByOperator(Mono.empty()).block();
        Checks.equal("reactive transactions commit", 2, stock.numberReactively());
        Checks.fails(
                "the reactive commit guard",
                CommitRefusedException.class,
                () -> stock.sellReactively(Stock.release()).block());
        Checks.fails(
                "CommitGuard.requireValidReactive",
                CommitRefusedException.class,
                () -> stock.sellByOperator(Stock.release()).block());
        Checks.equal("refused reactive commits are rolled back", 2, stock.numberReactively());
    }

    @SuppressWarnings({"rawtypes", "unchecked"}) // Only Integration 7 has a type parameter here.
    private void checkLockRegistry() {
        LockRegistry registry = context.getBean(LockRegistry.class);
        var lock = registry.obtain("flow");
        lock.lock();
        try {
            Checks.that("a lock of the registry", client.mutex("steps:flow").isLocked());
        } finally {
            lock.unlock();
        }
        Checks.that("it is unlocked", !client.mutex("steps:flow").isLocked());
    }

    private void checkEndpoints() {
        Checks.contains(
                "health",
                get("health"),
                "\"steadlock\":{",
                "\"auditLocks\":{",
                "memory://",
                "roundTrip",
                "\"openBreakers\":0",
                "\"status\":\"UP\"");
        // New kinds and groups get their meters with the second scrape.
        Waiting.until(
                "metrics by Micrometer",
                () ->
                        get("prometheus").contains("group=\"voucher\"")
                                && get("prometheus").contains("steadlock_fair_queue{"));
        Checks.contains(
                "metrics", get("prometheus"), "steadlock_acquisitions_total", "steadlock_held");
        var held = client.fairLock("tickets");
        held.lock();
        var waiter = new Thread(() -> client.fairLock("tickets").withLock(lease -> null), "next");
        waiter.start();
        Waiting.until("locks that are waited for", () -> get("locks").contains("\"next\""));
        Checks.contains(
                "locks that are held",
                get("locks"),
                "\"name\":\"tickets\"",
                "\"kind\":\"fair_lock\"",
                "\"thread\":\"main\"");
        held.unlock();
        var lost = client.lock("brief");
        lost.lock(Duration.ofMillis(100));
        Waiting.until("locks that are lost", () -> LOST.matcher(get("locks")).find());
        Checks.fails(
                "a lost lock is not unlocked",
                RuntimeException.class,
                () -> {
                    lost.unlock();
                    return null;
                });
    }

    private String get(String endpoint) {
        return Actuator.get(context, endpoint);
    }
}
