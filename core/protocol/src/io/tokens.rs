//! What a token says of the clock of the server that drew it.

use super::Io;
use crate::instant::Instant;
use crate::kinds::Keys;
use crate::observed::{Detail, Observed};
use crate::token::Token;

impl Io {
    /// A server drew a token for a call that was sent and answered at these times.
    pub(crate) fn token_came(&mut self, keys: &Keys, token: Token, times: (Instant, Instant)) {
        if self.detail >= Detail::Trouble
            && let Some(by) = self
                .server_clocks
                .told(self.breakers.place(keys), token, times, self.config.lease)
        {
            let primary = self.primary(keys);
            self.observed.push_back(Observed::ClockAhead { primary, by });
        }
    }
}
