package com.example.shop;

import io.github.steadlock.spring.DistributedLock;

/** An interface with the annotation. */
public interface Catalogue {
    @DistributedLock(name = "'price:' + #item", waitTime = "1s")
    String price(String item);
}
