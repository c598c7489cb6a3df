//! The few machine instructions that the files are made of.

/// Instructions, and where in them the distance to a slot of the GOT belongs.
#[derive(Clone, Debug, Default)]
pub(super) struct Code {
    bytes: Vec<u8>,
    slots: Vec<(usize, usize)>,
}

impl Code {
    /// `mov eax, value; ret`
    pub(super) fn returning(value: i32) -> Self {
        let mut code = Self::default();
        code.push(&[0xb8]).push(&value.to_le_bytes()).push(&[0xc3]);
        code
    }

    /// `jmp [rip + slot]`: returns what the imported function returns.
    pub(super) fn jumping_to(slot: usize) -> Self {
        let mut code = Self::default();
        code.push(&[0xff, 0x25]).distance_to(slot);
        code
    }

    /// Prints a text, then exits with `status`, or with what an imported function returns.
    pub(super) fn program(text: &str, status: u8, call: Option<usize>) -> Self {
        const WRITE: u8 = 1;
        const EXIT_GROUP: u8 = 231;
        let text = text.as_bytes();
        let exit = match call {
            // call [rip + slot]; mov edi, eax
            Some(_) => 8,
            // mov edi, status
            None => 5,
        } + 7;
        let mut code = Self::default();
        if !text.is_empty() {
            let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
            // mov eax, 1; mov edi, 1; mov edx, length
            code.push(&[0xb8, WRITE, 0, 0, 0]).push(&[0xbf, 1, 0, 0, 0]);
            code.push(&[0xba]).push(&length.to_le_bytes());
            // lea rsi, [rip + what follows up to the text]; syscall
            code.push(&[0x48, 0x8d, 0x35, 2 + exit, 0, 0, 0]).push(&[0x0f, 0x05]);
        }
        match call {
            Some(slot) => code.push(&[0xff, 0x15]).distance_to(slot).push(&[0x89, 0xc7]),
            None => code.push(&[0xbf, status, 0, 0, 0]),
        };
        // mov eax, exit_group; syscall
        code.push(&[0xb8, EXIT_GROUP, 0, 0, 0]).push(&[0x0f, 0x05]);
        code.push(text);
        code
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes as they stand at an address, with the GOT at another.
    pub(super) fn at(&self, address: u64, got: u64) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for (position, slot) in &self.slots {
            let next = address + *position as u64 + 4;
            let distance = (got + *slot as u64 * 8).wrapping_sub(next);
            // The low half of a distance that fits 32 bits, as it does in files of this size.
            bytes[*position..position + 4].copy_from_slice(&distance.to_le_bytes()[..4]);
        }
        bytes
    }

    fn push(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn distance_to(&mut self, slot: usize) -> &mut Self {
        self.slots.push((self.bytes.len(), slot));
        self.push(&[0; 4])
    }
}
