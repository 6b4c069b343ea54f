package worker

import "strings"

// Entrants are those who may win: people to whom computing owes something.
var Entrants = []string{
	"Ada Lovelace", "Alan Kay", "Alan Turing", "Alonzo Church", "Annie Easley",
	"Barbara Liskov", "Betty Holberton", "Butler Lampson", "Claude Shannon", "Dana Angluin",
	"Dennis Ritchie", "Donald Knuth", "Dorothy Vaughan", "Edsger Dijkstra", "Evelyn Boyd Granville",
	"Frances Allen", "Fred Brooks", "Grace Hopper", "Hedy Lamarr", "Ivan Sutherland",
	"Jean Sammet", "Joan Clarke", "John Backus", "John McCarthy", "Karen Spärck Jones",
	"Katherine Johnson", "Ken Thompson", "Konrad Zuse", "Kristen Nygaard", "Leslie Lamport",
	"Lynn Conway", "Margaret Hamilton", "Mary Shaw", "Niklaus Wirth", "Per Brinch Hansen",
	"Radia Perlman", "Robin Milner", "Shafi Goldwasser", "Sophie Wilson", "Tony Hoare",
}

// SplitNames splits the list of names in the lottery's register.
func SplitNames(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}
