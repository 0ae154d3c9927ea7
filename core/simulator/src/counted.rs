//! Enums of what can happen in a history, and counts of how often each has happened.

/// Defines an enum, a name for each of its variants, and a type that counts how often each variant has happened.
macro_rules! counted {
    ($(#[$of:meta])* $kind:ident, $counts:ident; $($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $kind {
            $($(#[$doc])* $name,)*
        }

        impl $kind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the name of the kind in printed tables.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }

        /// How often each kind has happened.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $counts(Vec<u64>);

        impl Default for $counts {
            fn default() -> Self {
                Self(vec![0; $kind::ALL.len()])
            }
        }

        impl $counts {
            pub(crate) fn count(&mut self, kind: $kind) {
                self.0[kind as usize] += 1;
            }

            /// Returns how often this kind has happened.
            #[must_use]
            pub fn of(&self, kind: $kind) -> u64 {
                self.0[kind as usize]
            }

            /// Returns the kinds that have not happened.
            #[must_use]
            pub fn missing(&self) -> Vec<$kind> {
                let all = $kind::ALL.iter().copied();
                all.filter(|kind| self.of(*kind) == 0).collect()
            }
        }

        impl std::ops::AddAssign<&Self> for $counts {
            fn add_assign(&mut self, other: &Self) {
                for (count, more) in self.0.iter_mut().zip(&other.0) {
                    *count += more;
                }
            }
        }
    };
}

pub(crate) use counted;
