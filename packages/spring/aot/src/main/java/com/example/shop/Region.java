package com.example.shop;

import org.springframework.stereotype.Component;

/** A bean that the name of a lock reads. */
@Component("region")
class Region {
    public String name() {
        return "north";
    }
}
