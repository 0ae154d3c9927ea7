package com.example.shop;

import io.github.steadlock.spring.DistributedLock;

/** An interface with an annotated method. */
public interface Catalogue {
    @DistributedLock(name = "'price:' + #item", waitTime = "1s")
    String price(String item);
}
