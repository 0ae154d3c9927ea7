//! The version of a server, and its known vulnerabilities.

use std::fmt;

/// The version of a server, such as Redis 7.2.11.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) product: Product,
    pub(crate) number: Number,
}

/// Major, minor, patch.
pub(crate) type Number = (u32, u32, u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Product {
    Redis,
    Valkey,
    /// The development server, `steadlock serve`.
    Steadlock,
}

impl Version {
    /// Reads a version such as `7.2.11`. Missing numbers count as 0.
    pub(crate) fn parse(product: Product, text: &str) -> Option<Self> {
        let mut parts = text.split(['.', '-']).map(|part| part.parse().ok());
        let major = parts.next()??;
        let mut next = || parts.next().flatten().unwrap_or(0);
        Some(Self {
            product,
            number: (major, next(), next()),
        })
    }

    /// Returns the advisories whose fix is not in this version, judged by its number.
    pub(crate) fn advisories(self, is_encrypted: bool) -> Vec<&'static Advisory> {
        let counts = |advisory: &&Advisory| {
            (is_encrypted || !advisory.is_about_tls)
                && advisory.product == self.product
                && advisory.affects(self.number)
        };
        ADVISORIES.iter().filter(counts).collect()
    }

    /// Returns whether the server has sharded channels.
    pub(crate) const fn has_sharded_channels(self) -> bool {
        self.number.0 >= 7
    }

    /// Returns whether clients can tell the server which library they use.
    pub(crate) const fn supports_setinfo(self) -> bool {
        self.number.0 > 7 || (self.number.0 == 7 && self.number.1 >= 2)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let product = match self.product {
            Product::Redis => "Redis",
            Product::Valkey => "Valkey",
            Product::Steadlock => "steadlock serve",
        };
        let (major, minor, patch) = self.number;
        write!(f, "{product} {major}.{minor}.{patch}")
    }
}

/// A known vulnerability of scripts or of TLS.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Advisory {
    pub(crate) id: &'static str,
    product: Product,
    /// The first fixed version of each release line, oldest first.
    pub(crate) fixed: &'static [Number],
    /// Whether release lines that are not listed, and are older than the newest listed one, have no fix. If false,
    /// servers of these lines are not reported.
    has_older: bool,
    /// Whether only servers with TLS are affected.
    is_about_tls: bool,
}

impl Advisory {
    fn affects(&self, number: Number) -> bool {
        let line = |number: &Number| (number.0, number.1);
        match self.fixed.iter().find(|fixed| line(fixed) == line(&number)) {
            Some(fixed) => number < *fixed,
            None => self.has_older && self.fixed.last().is_some_and(|newest| number < *newest),
        }
    }
}

/// The advisories, from the release notes of Redis and Valkey and from the CVE records. Release lines that no source
/// names are left out.
const ADVISORIES: &[Advisory] = &[
    Advisory {
        // The same releases fix CVE-2025-46817, -46818 and -46819.
        id: "CVE-2025-49844",
        product: Product::Redis,
        fixed: &[(6, 2, 20), (7, 2, 11), (7, 4, 6), (8, 0, 4), (8, 2, 2)],
        has_older: true,
        is_about_tls: false,
    },
    Advisory {
        id: "CVE-2025-49844",
        product: Product::Valkey,
        fixed: &[(7, 2, 11), (8, 0, 6), (8, 1, 4)],
        has_older: true,
        is_about_tls: false,
    },
    Advisory {
        id: "CVE-2025-67733",
        product: Product::Valkey,
        fixed: &[(7, 2, 12), (8, 0, 7), (8, 1, 6), (9, 0, 2)],
        has_older: true,
        is_about_tls: false,
    },
    Advisory {
        id: "CVE-2026-23631",
        product: Product::Redis,
        fixed: &[(7, 4, 9), (8, 2, 6), (8, 4, 3), (8, 6, 3)],
        has_older: false,
        is_about_tls: false,
    },
    Advisory {
        id: "CVE-2026-23631",
        product: Product::Valkey,
        fixed: &[(8, 1, 7), (9, 0, 4)],
        has_older: false,
        is_about_tls: false,
    },
    Advisory {
        id: "CVE-2026-81934",
        product: Product::Redis,
        fixed: &[
            (6, 2, 24),
            (7, 2, 16),
            (7, 4, 11),
            (8, 2, 9),
            (8, 4, 6),
            (8, 6, 6),
            (8, 8, 2),
            (8, 10, 1),
        ],
        has_older: true,
        is_about_tls: true,
    },
    Advisory {
        id: "CVE-2026-56684",
        product: Product::Valkey,
        fixed: &[(8, 1, 9), (9, 0, 5), (9, 1, 1)],
        has_older: false,
        is_about_tls: true,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(product: Product, text: &str, is_encrypted: bool) -> Vec<&'static str> {
        let version = Version::parse(product, text).unwrap();
        version.advisories(is_encrypted).iter().map(|one| one.id).collect()
    }

    #[test]
    fn a_version_is_parsed_with_its_suffix() {
        let read = |text| Version::parse(Product::Redis, text).map(|version| version.number);
        assert_eq!(read("7.2.11"), Some((7, 2, 11)));
        assert_eq!(read("8.0"), Some((8, 0, 0)));
        assert_eq!(read("7.4.6-272"), Some((7, 4, 6)));
        assert_eq!(read("unstable"), None);
    }

    #[test]
    fn each_release_line_has_its_own_fix_and_older_lines_have_none() {
        for (text, hit) in [
            ("6.2.14", true),
            ("6.2.20", false),
            ("7.0.15", true),
            ("7.2.10", true),
            ("7.2.11", false),
            ("8.2.1", true),
            ("8.2.2", false),
            ("8.6.3", false),
        ] {
            let found = ids(Product::Redis, text, false).contains(&"CVE-2025-49844");
            assert_eq!(found, hit, "{text}");
        }
        assert!(ids(Product::Valkey, "9.1.2", true).is_empty());
        assert_eq!(ids(Product::Valkey, "8.0.6", false), ["CVE-2025-67733"]);
    }

    #[test]
    fn a_release_line_without_known_fixes_has_no_advisory() {
        assert!(!ids(Product::Redis, "7.2.11", false).contains(&"CVE-2026-23631"));
        assert!(ids(Product::Redis, "8.2.3", false).contains(&"CVE-2026-23631"));
    }

    #[test]
    fn advisories_about_tls_apply_only_to_servers_with_tls() {
        assert!(!ids(Product::Redis, "8.2.8", false).contains(&"CVE-2026-81934"));
        assert!(ids(Product::Redis, "8.2.8", true).contains(&"CVE-2026-81934"));
    }

    #[test]
    fn security_md_names_the_same_fixes_of_the_scripts() {
        let document = include_str!("../../../../SECURITY.md");
        for advisory in ADVISORIES.iter().filter(|advisory| advisory.id == "CVE-2025-49844") {
            for (major, minor, patch) in advisory.fixed {
                assert!(document.contains(&format!("{major}.{minor}.{patch}")), "{advisory:?}");
            }
        }
    }
}
