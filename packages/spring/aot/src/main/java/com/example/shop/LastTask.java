package com.example.shop;

import io.github.steadlock.NamedLock;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.springframework.beans.factory.DisposableBean;

/**
 * A task that holds a lock until the context begins to destroy its beans. The context waits for the
 * task, as executors wait for their tasks.
 */
class LastTask implements DisposableBean {
    private final CountDownLatch begun = new CountDownLatch(1);
    private final CountDownLatch ending = new CountDownLatch(1);
    private final CompletableFuture<Boolean> wasHeld = new CompletableFuture<>();

    /** Begins the task. The result tells whether the lock was held to the end. */
    CompletableFuture<Boolean> begin(NamedLock lock) throws InterruptedException {
        new Thread(
                        () -> {
                            lock.lock();
                            begun.countDown();
                            try {
                                ending.await();
                                wasHeld.complete(lock.isHeldByCurrentThread());
                            } catch (InterruptedException | RuntimeException failed) {
                                wasHeld.completeExceptionally(failed);
                            }
                        })
                .start();
        begun.await();
        return wasHeld;
    }

    @Override
    public void destroy() throws Exception {
        if (begun.getCount() == 0) {
            ending.countDown();
            wasHeld.get(20, TimeUnit.SECONDS);
        }
    }
}
