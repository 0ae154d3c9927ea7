package com.example.shop;

import io.github.steadlock.SteadlockException;
import io.github.steadlock.spring.CurrentLease;
import io.github.steadlock.spring.DistributedLock;
import io.github.steadlock.spring.LockKind;
import io.github.steadlock.spring.OnBusy;
import io.github.steadlock.spring.OnCancel;
import io.github.steadlock.spring.actuate.LocksEndpoint;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.stereotype.Service;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Annotated methods that return the locks that the program holds while they run. */
@Service
public class Shop implements Catalogue {
    private final ObjectProvider<LocksEndpoint> locks;

    public Shop(ObjectProvider<LocksEndpoint> locks) {
        this.locks = locks;
    }

    /** An argument whose properties the name of a lock reads. */
    public record Order(long id, Customer customer) {
        public record Customer(String name) {}
    }

    @DistributedLock(name = "'voucher:' + #userId", reason = "one voucher each")
    public String buy(long userId) {
        return CurrentLease.get().getName() + " of " + held();
    }

    @DistributedLock(name = "stock:#{#item}")
    public CompletableFuture<String> buyLater(String item) {
        return CompletableFuture.supplyAsync(this::held);
    }

    @DistributedLock(name = "'pick:' + #item", onCancel = OnCancel.RELEASE)
    public CompletableFuture<String> pick(String item) {
        return new CompletableFuture<>();
    }

    @DistributedLock(name = "'order:' + #order.customer.name + #order.id()")
    public Mono<String> deliver(Order order) {
        return CurrentLease.reactive().map(lease -> lease.getName() + " of " + held());
    }

    @DistributedLock(name = "#p0")
    public Flux<String> reserve(List<String> items) {
        return Flux.fromIterable(items).map(item -> held());
    }

    @DistributedLock(name = "@region.name() + ':' + #a0", kind = LockKind.FAIR)
    public String inRegion(String item) {
        return held();
    }

    @DistributedLock(name = "'${shop.name}:' + #item", lease = "${shop.lease}")
    public String inShop(String item) {
        return held();
    }

    @DistributedLock(name = "'ledger'", client = "auditLocks")
    public String audit() {
        return held();
    }

    @DistributedLock(name = "'sheet'", kind = LockKind.READ)
    public String read() {
        return held();
    }

    @DistributedLock(name = "'sheet'", kind = LockKind.WRITE)
    public String write() {
        return held();
    }

    @DistributedLock(name = "'door'", kind = LockKind.SEMAPHORE, limit = 2)
    public String enter() {
        return held();
    }

    @Exclusive("'till'")
    public String count() {
        return held();
    }

    @Override
    public String price(String item) {
        return held();
    }

    @DistributedLock(
            name = "'till'",
            kind = LockKind.MUTEX,
            waitTime = "0s",
            busyHandler = "tillIsBusy")
    public String pay(int amount) {
        return held();
    }

    private String tillIsBusy(int amount, SteadlockException busy) {
        return amount + " is not paid: " + busy.getClass().getSimpleName();
    }

    @DistributedLock(name = "'till'", kind = LockKind.MUTEX, waitTime = "0s", onBusy = OnBusy.SKIP)
    public Optional<String> payOrNot() {
        return Optional.of(held());
    }

    @DistributedLock(name = "'till'", kind = LockKind.MUTEX, waitTime = "0s", onBusy = OnBusy.SKIP)
    public Mono<String> payOrNotReactively() {
        return Mono.fromSupplier(this::held);
    }

    @DistributedLock(name = "'till'", kind = LockKind.MUTEX, waitTime = "0s")
    public String payNow() {
        return held();
    }

    private String held() {
        return locks.getObject().locks().held().stream()
                .map(Shop::shown)
                .collect(Collectors.joining(", "));
    }

    private static String shown(LocksEndpoint.Held held) {
        String reason = held.reason() == null ? "" : ", for " + held.reason();
        String client = held.client().equals("steadlockClient") ? "" : " of " + held.client();
        return held.kind() + " " + held.name() + reason + client;
    }
}
