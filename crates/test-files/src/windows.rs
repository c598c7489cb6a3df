//! Windows binaries for x86-64 with sections of any contents.

/// The address at which the binary wants to be loaded.
pub const BASE: u64 = 0x1_8000_0000;

/// A section: its name, its address, its bytes.
pub type Part<'a> = (&'a [u8; 8], u32, &'a [u8]);

/// A binary with these sections, and with tables at these addresses of these lengths.
pub fn binary(parts: &[Part<'_>], tables: &[(usize, u32, u32)]) -> Vec<u8> {
    let mut file = b"MZ".to_vec();
    file.resize(0x3c, 0);
    file.extend(0x40_u32.to_le_bytes());
    file.extend(b"PE\0\0\x64\x86");
    file.extend(u16::try_from(parts.len()).unwrap().to_le_bytes());
    file.extend([0; 12]);
    file.extend([240, 0, 0x22, 0x20]);
    let optional = file.len();
    file.resize(optional + 240, 0);
    file[optional..optional + 2].copy_from_slice(&[0x0b, 2]);
    file[optional + 24..optional + 32].copy_from_slice(&BASE.to_le_bytes());
    file[optional + 108] = 16;
    for (number, address, len) in tables {
        let entry = optional + 112 + number * 8;
        file[entry..entry + 4].copy_from_slice(&address.to_le_bytes());
        file[entry + 4..entry + 8].copy_from_slice(&len.to_le_bytes());
    }
    let mut content = Vec::new();
    for (name, address, bytes) in parts {
        let len = u32::try_from(bytes.len()).unwrap();
        let padded = len.next_multiple_of(512);
        let start = 0x400 + u32::try_from(content.len()).unwrap();
        file.extend(*name);
        for number in [len, *address, padded, start] {
            file.extend(number.to_le_bytes());
        }
        file.extend([0; 16]);
        content.extend(*bytes);
        content.resize((start - 0x400 + padded) as usize, 0);
    }
    file.resize(0x400, 0);
    file.extend(content);
    file
}
