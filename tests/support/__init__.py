"""What tests share: raw connections, server processes, reply trees and transcripts."""
