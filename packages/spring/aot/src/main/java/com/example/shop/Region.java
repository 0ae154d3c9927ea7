package com.example.shop;

import org.springframework.stereotype.Component;

/** A bean that a lock's name asks. */
@Component("region")
class Region {
    public String name() {
        return "north";
    }
}
