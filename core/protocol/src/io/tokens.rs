//! Tokens, which tell the clock of the server that drew them.

use super::Io;
use crate::instant::Instant;
use crate::kinds::Keys;
use crate::observed::{Detail, Observed};
use crate::token::Token;

impl Io {
    /// A server drew a token for a call that was sent and answered at these times.
    pub(crate) fn token_came(&mut self, keys: &Keys, token: Token, times: (Instant, Instant)) {
        if self.detail < Detail::Trouble {
            return;
        }
        let place = self.breakers.place(keys);
        if let Some(by) = self.server_clocks.told(place, token, times, self.config.lease) {
            self.observe(Detail::Trouble, |io| Observed::ClockAhead {
                primary: io.primary(keys),
                by,
            });
        }
    }
}
